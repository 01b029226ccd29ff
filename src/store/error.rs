//! Errors of the store, distinguished as far as a caller can act on them.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::db::DISK_FULL;
use crate::domain::task_order::Refused;

#[derive(Debug, Error)]
pub enum StoreError {
    #[error("an existing agent already has this name")]
    NameTaken,
    #[error("another agent already has this workspace")]
    WorkspaceTaken,
    #[error("the agent has a workspace, so its record stays")]
    HasWorkspace,
    #[error("the agent already has a task")]
    Busy,
    #[error("the task queue of the agent is full")]
    QueueFull,
    #[error("the metadata of the agent has reached its limit")]
    MetadataFull,
    #[error("this request key was used with other arguments")]
    KeyReused,
    #[error("the operation has ended")]
    Ended,
    #[error("the agent is being deleted")]
    BeingDeleted,
    #[error("the parent token is revoked")]
    ParentRevoked,
    #[error("no such {0} in the store")]
    Missing(&'static str),
    #[error("SQLite {found} can damage its write-ahead log; {needed} or newer is needed")]
    SqliteTooOld { found: String, needed: &'static str },
    #[error(
        "{path} was made by a newer fleet-mcp (schema {found}, this one supports {known}): install that \
         version, or stop fleet-mcp, remove {path}-wal and copy a backup from {backups} over {path}"
    )]
    NewerSchema { path: PathBuf, found: i64, known: i64, backups: PathBuf },
    #[error("{path} is damaged: {problem}; {advice}")]
    Corrupt { path: PathBuf, problem: String, advice: String },
    #[error("{path} is empty, though this data directory was in use before; {advice}")]
    Emptied { path: PathBuf, advice: String },
    #[error("migrate {path}; {backup}")]
    Migrate {
        path: PathBuf,
        /// Where the state before the migration is kept, in words.
        backup: String,
        source: sqlx::migrate::MigrateError,
    },
    #[error("{doing} {path}")]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("the disk is full")]
    Full,
    #[error(transparent)]
    Database(sqlx::Error),
}

impl From<Refused> for StoreError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Busy => Self::Busy,
            Refused::QueueFull => Self::QueueFull,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(refusal) if refusal.code().as_deref() == Some(DISK_FULL) => Self::Full,
            _ => Self::Database(error),
        }
    }
}
