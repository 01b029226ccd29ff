//! Settings that people change while the fleet runs, with who set them.

use chrono::{DateTime, Utc};

use super::Store;
use super::error::StoreError;
use super::row::micros;

impl Store {
    pub async fn setting(&self, key: &str) -> Result<Option<String>, StoreError> {
        let query = sqlx::query_scalar("SELECT value FROM user_config WHERE key = $1").bind(key);
        Ok(query.fetch_optional(&self.read).await?)
    }

    pub async fn setting_set(
        &self,
        key: &str,
        value: &str,
        by: &str,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO user_config (key, value, set_by, set_at) VALUES ($1, $2, $3, $4) ON CONFLICT (key) \
             DO UPDATE SET value = excluded.value, set_by = excluded.set_by, set_at = excluded.set_at",
        )
        .bind(key)
        .bind(value)
        .bind(by)
        .bind(micros(at))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// All that were ever set, by key.
    pub async fn settings(&self) -> Result<Vec<(String, String)>, StoreError> {
        Ok(sqlx::query_as("SELECT key, value FROM user_config ORDER BY key").fetch_all(&self.read).await?)
    }
}
