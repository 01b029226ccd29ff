//! Migrates a database to our schema: refuses a newer one, copies an existing one first, never stops halfway.

use std::borrow::Cow;

use chrono::Utc;
use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::StoreOptions;
use super::backup;
use super::db::{DbPool, has_table};
use super::error::StoreError;

/// One step of the schema, immutable once released.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

pub(crate) const STEPS: &[Step] = &[
    Step { version: 1, name: "foundation", sql: include_str!("migrations/0001_foundation.sql") },
    Step { version: 2, name: "runs", sql: include_str!("migrations/0002_runs.sql") },
    Step { version: 3, name: "tasks", sql: include_str!("migrations/0003_tasks.sql") },
    Step { version: 4, name: "identity", sql: include_str!("migrations/0004_identity.sql") },
    Step { version: 5, name: "squads", sql: include_str!("migrations/0005_squads.sql") },
    Step { version: 6, name: "request keys", sql: include_str!("migrations/0006_request_keys.sql") },
    Step { version: 7, name: "directories", sql: include_str!("migrations/0007_directories.sql") },
    Step { version: 8, name: "refusals", sql: include_str!("migrations/0008_refusals.sql") },
    Step { version: 9, name: "outputs", sql: include_str!("migrations/0009_outputs.sql") },
    Step { version: 10, name: "words", sql: include_str!("migrations/0010_words.sql") },
    Step { version: 11, name: "audit index", sql: include_str!("migrations/0011_audit_index.sql") },
    Step { version: 12, name: "signatures", sql: include_str!("migrations/0012_signatures.sql") },
    Step { version: 13, name: "interrupts", sql: include_str!("migrations/0013_interrupts.sql") },
    Step { version: 14, name: "cancel", sql: include_str!("migrations/0014_cancel.sql") },
    Step { version: 15, name: "usage", sql: include_str!("migrations/0015_usage.sql") },
    Step { version: 16, name: "word numbers", sql: include_str!("migrations/0016_word_numbers.sql") },
    Step { version: 17, name: "engine runs", sql: include_str!("migrations/0017_engine_runs.sql") },
    Step { version: 18, name: "open runs", sql: include_str!("migrations/0018_open_runs.sql") },
    Step { version: 19, name: "conversations", sql: include_str!("migrations/0019_conversations.sql") },
];

/// Applies the missing steps, each in one transaction.
pub(crate) async fn migrate(
    writer: &DbPool,
    steps: &[Step],
    options: &StoreOptions,
) -> Result<(), StoreError> {
    let current = current_version(writer).await?;
    let known = steps.iter().map(|step| step.version).max().unwrap_or(0);
    if current > known {
        let (path, backups) = (options.path.clone(), options.backups.clone());
        return Err(StoreError::NewerSchema { path, found: current, known, backups });
    }
    let backup = match current {
        0 => "the database was new".to_owned(),
        current if current == known => "nothing was pending".to_owned(),
        current => backup_first(writer, current, options).await?,
    };
    let applied = migrator(steps).run(writer).await;
    applied.map_err(|source| StoreError::Migrate { path: options.path.clone(), backup, source })
}

async fn backup_first(writer: &DbPool, current: i64, options: &StoreOptions) -> Result<String, StoreError> {
    let to = backup::path_for(&options.backups, current, Utc::now());
    backup::copy(writer, &to).await?;
    Ok(format!("the state before it is in {}", to.display()))
}

/// The newest applied step; 0 for a database without any.
async fn current_version(writer: &DbPool) -> Result<i64, StoreError> {
    if !has_table(writer, "_sqlx_migrations").await? {
        return Ok(0);
    }
    let newest: Option<i64> =
        sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(writer).await?;
    Ok(newest.unwrap_or(0))
}

fn migrator(steps: &[Step]) -> Migrator {
    Migrator::with_migrations(steps.iter().map(migration).collect())
}

fn migration(step: &Step) -> Migration {
    let without_transaction = false;
    Migration::new(
        step.version,
        Cow::Borrowed(step.name),
        MigrationType::Simple,
        step.sql.into_sql_str(),
        without_transaction,
    )
}

#[cfg(test)]
#[path = "migrate_tests.rs"]
mod tests;
