//! Request keys: a repeated request finds the operation of the first one instead of making another.

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use super::error::StoreError;
use super::row::{Columns, micros};
use super::{Store, operations};
use crate::domain::id::OperationId;
use crate::domain::operation::Operation;

/// A caller's own name for a request; the fingerprint tells whether its arguments are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    pub principal: String,
    pub tool: String,
    pub key: String,
    pub fingerprint: [u8; 32],
}

/// Was the request new?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    New,
    /// The operation that the same key made before.
    Repeated(Operation),
}

impl Store {
    /// Forgets keys used before this time; gives how many.
    pub async fn request_keys_prune(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let prune = sqlx::query("DELETE FROM request_keys WHERE created_at < $1").bind(micros(before));
        Ok(prune.execute(&self.write).await?.rows_affected())
    }
}

/// The operation made with this key before; none for a request without a key.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    key: Option<&RequestKey>,
) -> Result<Option<Operation>, StoreError> {
    let Some(key) = key else { return Ok(None) };
    let row = sqlx::query(
        "SELECT fingerprint, operation_id FROM request_keys WHERE principal = $1 AND tool = $2 AND key = $3",
    )
    .bind(&key.principal)
    .bind(&key.tool)
    .bind(&key.key)
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    if row.try_get::<&[u8], _>("fingerprint")? != key.fingerprint {
        return Err(StoreError::KeyReused);
    }
    Ok(operations::by_id(connection, row.id("operation_id", OperationId)?).await?)
}

pub(super) async fn remember(
    connection: &mut SqliteConnection,
    key: Option<&RequestKey>,
    operation: &Operation,
) -> Result<(), StoreError> {
    let Some(key) = key else { return Ok(()) };
    sqlx::query(
        "INSERT INTO request_keys (principal, tool, key, fingerprint, operation_id, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(&key.principal)
    .bind(&key.tool)
    .bind(&key.key)
    .bind(key.fingerprint.as_slice())
    .bind(operation.id.0)
    .bind(micros(operation.created_at))
    .execute(connection)
    .await?;
    Ok(())
}
