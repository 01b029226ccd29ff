//! Provisions: what was last written into each agent's workspace, so that it is written once per start.

use sqlx::{FromRow, Row};

use super::Store;
use super::db::DbRow;
use super::error::StoreError;
use super::row::{Columns, micros};
use crate::domain::id::AgentId;
use crate::domain::provision::{Callback, Provision};

impl Store {
    /// Records an agent's provision; replaces the previous one.
    pub async fn provision_set(&self, provision: &Provision) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO provisions (agent_id, generation, url, callback, token_expires_at, at) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (agent_id) DO UPDATE SET \
             generation = excluded.generation, url = excluded.url, callback = excluded.callback, \
             token_expires_at = excluded.token_expires_at, at = excluded.at",
        )
        .bind(provision.agent_id.0)
        .bind(provision.generation)
        .bind(&provision.url)
        .bind(provision.callback.word())
        .bind(micros(provision.token_expires_at))
        .bind(micros(provision.at))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// The provisions of agents that are not deleted.
    pub async fn provisions_live(&self) -> Result<Vec<Provision>, StoreError> {
        let query = sqlx::query_as(
            "SELECT p.agent_id, p.generation, p.url, p.callback, p.token_expires_at, p.at FROM provisions p \
             JOIN agents a ON a.id = p.agent_id WHERE a.deleted_at IS NULL ORDER BY p.agent_id",
        );
        Ok(query.fetch_all(&self.read).await?)
    }
}

impl FromRow<'_, DbRow> for Provision {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            agent_id: row.id("agent_id", AgentId)?,
            generation: row.try_get("generation")?,
            url: row.try_get("url")?,
            callback: row.word("callback", Callback::parse)?,
            token_expires_at: row.time("token_expires_at")?,
            at: row.time("at")?,
        })
    }
}
