//! The only file that depends on the database product: its types, opening, checks, and its specific SQL.
//!
//! All other SQL of the store is portable. SQLite-specific are: pragmas, `VACUUM INTO`, `sqlite_schema`, `BEGIN
//! IMMEDIATE`; elsewhere only the schema (`migrations/`) and tests of query plans.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{
    Sqlite, SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool,
    SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection};

use super::StoreOptions;
use super::backup;
use super::error::StoreError;

pub(super) type DbPool = SqlitePool;
pub(super) type DbConnection = SqliteConnection;
pub(super) type DbTransaction = sqlx::Transaction<'static, Sqlite>;
pub(super) type DbQuery<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;
pub(super) type DbRow = SqliteRow;

/// Takes the write lock at once.
const BEGIN: &str = "BEGIN IMMEDIATE";
/// The error code of a full disk; the transaction is already rolled back.
pub(super) const DISK_FULL: &str = "13";
const LARGEST_CHECKED_AT_OPEN: u64 = 64 * 1024 * 1024;
/// Older versions can lose a write when a checkpoint coincides with a restart of the log.
const OLDEST_SQLITE: (u32, u32, u32) = (3, 51, 3);
const OLDEST_SQLITE_TEXT: &str = "3.51.3";
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const READERS: u32 = 4;
const OWNER_ONLY: u32 = 0o600;

/// Whether a database existed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingDatabase {
    Nothing,
    Database,
}

/// Creates the file if it is missing; the log files inherit its mode.
pub(crate) fn prepare_file(path: &Path) -> Result<ExistingDatabase, StoreError> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(OWNER_ONLY)
        .open(path)
        .map_err(|source| StoreError::File { doing: "open database file", path: path.into(), source })?;
    let found = match file.metadata() {
        Ok(metadata) if metadata.len() == 0 => ExistingDatabase::Nothing,
        Ok(_) | Err(_) => ExistingDatabase::Database,
    };
    for file in files_of(path) {
        keep_private(&file)?;
    }
    Ok(found)
}

/// The files of a database. SQLite resolves links before it names its logs.
pub(super) fn files_of(path: &Path) -> [PathBuf; 3] {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (log, index) = (with_suffix(&path, "-wal"), with_suffix(&path, "-shm"));
    [path, log, index]
}

pub(crate) async fn check_version() -> Result<(), StoreError> {
    let mut connection = SqliteConnectOptions::new().in_memory(true).connect().await?;
    let found: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut connection).await?;
    connection.close().await?;
    if is_recent(&found) {
        return Ok(());
    }
    Err(StoreError::SqliteTooOld { found, needed: OLDEST_SQLITE_TEXT })
}

/// The only writing connection, so that our own writers never find the database locked.
pub(crate) async fn open_writer(path: &Path) -> Result<DbPool, sqlx::Error> {
    let options = base_options(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true);
    pool(1).connect_with(options).await
}

/// Readers cannot write even by mistake. The log must exist before them, so the writer is opened first.
pub(crate) async fn open_readers(path: &Path) -> Result<DbPool, sqlx::Error> {
    pool(READERS).connect_with(base_options(path).read_only(true)).await
}

/// Refuses a damaged database before anything is written to it. The check reads the whole file, so that large ones
/// are left to `doctor`: a start must not take minutes.
pub(crate) async fn check_health(writer: &DbPool, options: &StoreOptions) -> Result<(), StoreError> {
    let is_large = std::fs::metadata(&options.path).is_ok_and(|file| file.len() > LARGEST_CHECKED_AT_OPEN);
    if is_large {
        return Ok(());
    }
    let findings: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_all(writer)
        .await
        .map_err(|error| refuse_damage(error, options))?;
    match findings.first() {
        Some(finding) if finding != "ok" => Err(corrupt(finding.clone(), options)),
        Some(_) | None => Ok(()),
    }
}

/// Distinguishes damage from other failures, with its remedy.
pub(crate) fn refuse_damage(error: sqlx::Error, options: &StoreOptions) -> StoreError {
    // SQLITE_CORRUPT and SQLITE_NOTADB; the low byte is the primary code.
    let is_damage = error
        .as_database_error()
        .and_then(|error| error.code()?.parse::<i32>().ok())
        .is_some_and(|code| matches!(code & 0xff, 11 | 26));
    if is_damage { corrupt(error.to_string(), options) } else { StoreError::Database(error) }
}

/// All problems that SQLite itself finds; empty if there are none.
pub(crate) async fn findings(connection: &mut DbConnection) -> Result<Vec<String>, sqlx::Error> {
    let mut findings: Vec<String> =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&mut *connection).await?;
    findings.retain(|finding| finding != "ok");
    let orphans: Vec<String> = sqlx::query_scalar("SELECT DISTINCT \"table\" FROM pragma_foreign_key_check")
        .fetch_all(connection)
        .await?;
    findings.extend(orphans.into_iter().map(|table| format!("{table} has rows without their parent row")));
    Ok(findings)
}

/// Refuses an empty file in place of a database: its content is lost, and a new database would hide that.
pub(crate) fn refuse_emptied(options: &StoreOptions) -> Result<(), StoreError> {
    let path = options.path.clone();
    if fs::metadata(&path).is_ok_and(|file| file.len() == 0) {
        let advice = backup_advice(options);
        let advice = advice.unwrap_or_else(|none| {
            format!("{none}; to start with an empty database run 'rm {}'", path.display())
        });
        return Err(StoreError::Emptied { path, advice });
    }
    Ok(())
}

/// The log beside a damaged file would be applied to its replacement, so it must be removed first.
fn corrupt(problem: String, options: &StoreOptions) -> StoreError {
    let advice = backup_advice(options).unwrap_or_else(|none| none);
    StoreError::Corrupt { path: options.path.clone(), problem, advice }
}

/// How to restore the newest backup, or that there is none.
fn backup_advice(options: &StoreOptions) -> Result<String, String> {
    let path = options.path.display();
    match backup::newest(&options.backups) {
        Some(backup) => {
            Ok(format!("stop fleet-mcp, remove {path}-wal and copy {} over {path}", backup.display()))
        }
        None => Err(format!("there is no backup in {}", options.backups.display())),
    }
}

pub(super) async fn begin(writer: &DbPool) -> Result<DbTransaction, sqlx::Error> {
    match writer.begin_with(BEGIN).await {
        // SQLite rolled a transaction back by itself, as on a full disk, while the connection still counts it as open.
        Err(sqlx::Error::InvalidSavePointStatement) => {
            writer.acquire().await?.close().await?;
            writer.begin_with(BEGIN).await
        }
        begun => begun,
    }
}

pub(super) async fn has_table(pool: &DbPool, name: &str) -> Result<bool, sqlx::Error> {
    let query = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = $1");
    let n_tables: i64 = query.bind(name).fetch_one(pool).await?;
    Ok(n_tables > 0)
}

/// Copies everything committed into an empty file.
pub(super) async fn copy_into(pool: &DbPool, file: &Path) -> Result<(), sqlx::Error> {
    let name = file.to_str().ok_or(sqlx::Error::Configuration("the path is not valid UTF-8".into()))?;
    sqlx::query("VACUUM INTO $1").bind(name).execute(pool).await.map(drop)
}

/// The steps by which a statement finds its rows.
#[cfg(test)]
pub(super) async fn query_plan(pool: &DbPool, sql: &'static str) -> Vec<String> {
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
    let steps = sqlx::query(explain).fetch_all(pool).await.unwrap();
    steps.iter().map(|step| sqlx::Row::get(step, "detail")).collect()
}

fn base_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).busy_timeout(BUSY_TIMEOUT)
}

/// A local file does not disappear: connections are neither tested before use nor replaced with age. All are opened
/// at the start, so that a directory above the file can be renamed while the server runs.
fn pool(size: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(size)
        .min_connections(size)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
}

fn keep_private(path: &Path) -> Result<(), StoreError> {
    match fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::File { doing: "restrict the mode of", path: path.into(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn is_recent(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next()) >= OLDEST_SQLITE
}

#[cfg(test)]
mod tests {
    use sqlx::Row;

    use super::*;

    #[test]
    fn sqlite_that_can_damage_its_log_is_told_from_newer_ones() {
        let judged: Vec<(&str, bool)> = ["3.51.2", "3.46.0", "2.99.9", "3.51.3", "3.52.0", "4.0", "nonsense"]
            .map(|version| (version, is_recent(version)))
            .into();
        assert_eq!(
            judged,
            vec![
                ("3.51.2", false),
                ("3.46.0", false),
                ("2.99.9", false),
                ("3.51.3", true),
                ("3.52.0", true),
                ("4.0", true),
                ("nonsense", false),
            ]
        );
    }

    async fn pragma(pool: &DbPool, sql: &'static str) -> String {
        let value: DbRow = sqlx::query(sql).fetch_one(pool).await.unwrap();
        value.try_get::<i64, _>(0).map_or_else(|_| value.get(0), |number| number.to_string())
    }

    #[tokio::test]
    async fn the_writer_is_durable_and_readers_cannot_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.db");
        prepare_file(&path).unwrap();
        let (writer, readers) = (open_writer(&path).await.unwrap(), open_readers(&path).await.unwrap());
        let mut found = Vec::new();
        for sql in ["PRAGMA journal_mode", "PRAGMA synchronous", "PRAGMA foreign_keys", "PRAGMA busy_timeout"]
        {
            found.push(pragma(&writer, sql).await);
        }
        let full = "2";
        assert_eq!(found, ["wal", full, "1", "5000"]);
        assert_eq!(pragma(&readers, "PRAGMA busy_timeout").await, "5000");
        assert_eq!(writer.options().get_max_connections(), 1);

        let refused = sqlx::query("CREATE TABLE t (x TEXT)").execute(&readers).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "error returned from database: (code: 8) attempt to write a readonly database"
        );
    }
}
