//! Idempotency keys: a repeated request finds what the first one created.

use chrono::{DateTime, Utc};
use sqlx::Row;
use uuid::Uuid;

use super::Store;
use super::db::DbConnection;
use super::error::StoreError;
use super::row::{Columns, micros};

/// A caller's idempotency key; the fingerprint tells whether its arguments are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    pub principal: String,
    pub tool: String,
    pub key: String,
    pub fingerprint: [u8; 32],
}

impl Store {
    /// Removes keys used before this time; returns how many.
    pub async fn request_keys_prune(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let prune = sqlx::query("DELETE FROM request_keys WHERE created_at < $1").bind(micros(before));
        Ok(prune.execute(&self.write).await?.rows_affected())
    }
}

/// The id of what was created with this key; none for a request without a key.
pub(super) async fn find(
    connection: &mut DbConnection,
    key: Option<&RequestKey>,
) -> Result<Option<Uuid>, StoreError> {
    let Some(key) = key else { return Ok(None) };
    let row = sqlx::query(
        "SELECT fingerprint, made_id FROM request_keys WHERE principal = $1 AND tool = $2 AND key = $3",
    )
    .bind(&key.principal)
    .bind(&key.tool)
    .bind(&key.key)
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    if row.try_get::<&[u8], _>("fingerprint")? != key.fingerprint {
        return Err(StoreError::KeyReused);
    }
    Ok(Some(row.id("made_id", |id| id)?))
}

/// Replaces a key whose result is gone and which `find` therefore ignored.
pub(super) async fn remember(
    connection: &mut DbConnection,
    key: Option<&RequestKey>,
    made: Uuid,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    let Some(key) = key else { return Ok(()) };
    sqlx::query(
        "INSERT INTO request_keys (principal, tool, key, fingerprint, made_id, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (principal, tool, key) DO UPDATE SET \
         fingerprint = excluded.fingerprint, made_id = excluded.made_id, created_at = excluded.created_at",
    )
    .bind(&key.principal)
    .bind(&key.tool)
    .bind(&key.key)
    .bind(key.fingerprint.as_slice())
    .bind(made)
    .bind(micros(at))
    .execute(connection)
    .await?;
    Ok(())
}
