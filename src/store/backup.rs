//! Copies of the database: atomic, readable by the owner only, and synced.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::db::{DbPool, copy_into};
use super::error::StoreError;
use crate::files::{Draft, Durability};

/// Copies the committed content to a file that must not exist yet.
pub(crate) async fn copy(pool: &DbPool, to: &Path) -> Result<(), StoreError> {
    let mut draft = start(to).map_err(|source| failed("start backup", to, source))?;
    copy_into(pool, &draft.path_beside(to)).await?;
    draft.place(Durability::Synced).map_err(|source| failed("finish backup", to, source))
}

/// The path of the copy before a migration; the names sort by age.
pub(crate) fn path_for(backups: &Path, schema: i64, now: DateTime<Utc>) -> PathBuf {
    backups.join(format!("fleet-{}-schema-{schema}.db", now.format("%Y%m%dT%H%M%S%6fZ")))
}

pub(crate) fn newest(backups: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(backups).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "db")).max()
}

/// The file is created before SQLite fills it, so that its mode is right from the first byte.
fn start(to: &Path) -> io::Result<Draft> {
    if to.try_exists()? {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    Draft::beside(to)
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File { doing, path: path.into(), source }
}
