//! All SQL: data that Coder does not keep, stored so that nothing acknowledged is lost.

mod agents;
mod audit;
mod backup;
mod db;
mod error;
mod history;
mod invariants;
mod journal;
mod journal_window;
mod logs;
mod metadata;
mod migrate;
mod operation_list;
mod operations;
mod provisions;
mod raw_files;
mod report_tasks;
mod request_keys;
mod rescues;
mod reserve;
mod row;
mod run_output;
mod runs;
mod sightings;
mod squad_members;
mod squads;
mod task_moves;
mod task_rows;
mod tasks;
mod tokens;
mod unassigned_reports;
mod usage;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use audit::{AuditOutcome, AuditRow};
pub use error::StoreError;
pub use history::HistoryPage;
pub use invariants::Ages;
pub use operation_list::ListedOperation;
pub use operations::Accepted;
pub use raw_files::RawFile;
pub use request_keys::RequestKey;
pub use sightings::NewSighting;
pub use squads::SquadAccepted;
pub use task_moves::{CancelTaken, CancelTarget, ReportEffect};
pub use tasks::{LatestTasks, TaskAccepted, TasksStamp};
pub use tokens::TokenRecord;
pub use usage::{UsageChanges, UsageReport};

use db::{DbPool, DbTransaction, ExistingDatabase, files_of};
use migrate::Step;
use raw_files::RawFiles;
use reserve::Reserve;

/// The paths of the database and its copies.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    pub path: PathBuf,
    pub backups: PathBuf,
}

/// The open database; clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    read: DbPool,
    write: DbPool,
    reserve: Arc<Reserve>,
    path: Arc<Path>,
    /// Dropped after the connections.
    raw: Arc<RawFiles>,
}

impl Store {
    /// Opens or creates the database; a damaged or newer one is refused without changing its rows.
    pub async fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        Self::open_at(options, migrate::STEPS).await
    }

    /// For a data directory in previous use: an empty file there is a lost database.
    pub fn refuse_emptied(options: &StoreOptions) -> Result<(), StoreError> {
        db::refuse_emptied(options)
    }

    /// Returns once running statements have ended and the log is merged into the file.
    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }

    /// Whether the database still responds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.revision().await.map(drop)
    }

    /// Problems of the database, in sentences; empty if there are none.
    pub async fn integrity(&self) -> Result<Vec<String>, StoreError> {
        let mut connection = self.read.acquire().await?;
        let mut findings = db::findings(&mut connection).await?;
        findings.extend(journal::count_findings(&mut connection).await?);
        Ok(findings)
    }

    /// The bytes of the database and of its log. The log's index contains no stored data.
    pub fn raw_files(&self) -> io::Result<Vec<(PathBuf, RawFile)>> {
        let [database, log, _index] = files_of(&self.path);
        let mut files = Vec::new();
        for path in [database, log] {
            match self.raw.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => files.push((path, opened?)),
            }
        }
        Ok(files)
    }

    /// Copies everything committed so far to a new file, readable by the owner only.
    pub async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        backup::copy(&self.read, to).await
    }

    async fn open_at(options: &StoreOptions, steps: &[Step]) -> Result<Self, StoreError> {
        db::check_version().await?;
        if backup::newest(&options.backups).is_some() {
            db::refuse_emptied(options)?;
        }
        let found = db::prepare_file(&options.path)?;
        let write =
            db::open_writer(&options.path).await.map_err(|error| db::refuse_damage(error, options))?;
        if let Err(refusal) = make_ready(&write, found, steps, options).await {
            write.close().await;
            return Err(refusal);
        }
        let read = db::open_readers(&options.path).await?;
        let reserve = Arc::new(Reserve::beside(&options.path));
        Ok(Self { read, write, reserve, path: options.path.as_path().into(), raw: Arc::default() })
    }

    /// For transactions that read before they write: the lock is taken at once, so that what was read stays valid.
    async fn begin(&self) -> Result<DbTransaction, StoreError> {
        Ok(db::begin(&self.write).await?)
    }
}

async fn make_ready(
    writer: &DbPool,
    found: ExistingDatabase,
    steps: &[Step],
    options: &StoreOptions,
) -> Result<(), StoreError> {
    match found {
        ExistingDatabase::Database => db::check_health(writer, options).await?,
        ExistingDatabase::Nothing => {}
    }
    migrate::migrate(writer, steps, options).await
}
