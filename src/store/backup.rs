//! Copies of the database: whole or not there, readable by the owner only, on disk before we go on.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::db::{DbPool, copy_into};
use super::error::StoreError;

/// Copies what is committed at this moment to a file that must not exist yet.
pub(crate) async fn copy(pool: &DbPool, to: &Path) -> Result<(), StoreError> {
    let part = to.with_extension("part");
    start(to, &part).map_err(|source| failed("start backup", to, source))?;
    if let Err(error) = copy_into(pool, &part).await {
        // Best effort: the reason why the copy failed matters more than its remains.
        fs::remove_file(&part).ok();
        return Err(error.into());
    }
    finish(&part, to).map_err(|source| failed("finish backup", to, source))
}

/// Where the copy before a migration goes; the names sort by age.
pub(crate) fn path_for(backups: &Path, schema: i64, now: DateTime<Utc>) -> PathBuf {
    backups.join(format!("fleet-{}-schema-{schema}.db", now.format("%Y%m%dT%H%M%S%6fZ")))
}

pub(crate) fn newest(backups: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(backups).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "db")).max()
}

/// The file is made before SQLite fills it, so that its mode is right from the first byte.
fn start(to: &Path, part: &Path) -> io::Result<()> {
    if to.try_exists()? {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    if let Some(folder) = to.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // A copy that was cut short by a crash is of no use.
    if part.try_exists()? {
        fs::remove_file(part)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(part).map(drop)
}

fn finish(part: &Path, to: &Path) -> io::Result<()> {
    File::open(part)?.sync_all()?;
    fs::rename(part, to)?;
    match to.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        Some(_) | None => Ok(()),
    }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File { doing, path: path.into(), source }
}
