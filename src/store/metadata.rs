//! Metadata set through us, beside what Coder reports.

use std::collections::BTreeMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};

use super::Store;
use super::error::StoreError;
use super::row::{Columns, micros};
use crate::domain::id::AgentId;
use crate::domain::metadata::{Dated, Metadata, MetadataKey};

impl Store {
    pub async fn metadata_set(
        &self,
        agent: AgentId,
        key: &MetadataKey,
        dated: &Dated,
    ) -> Result<(), StoreError> {
        let set = sqlx::query(
            "INSERT INTO metadata (agent_id, key, value, changed_at) SELECT id, $2, $3, $4 FROM agents WHERE id = $1 \
             ON CONFLICT (agent_id, key) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at",
        )
        .bind(agent.0)
        .bind(key.as_str())
        .bind(&dated.value)
        .bind(micros(dated.changed_at))
        .execute(&self.write)
        .await?;
        if set.rows_affected() == 0 { Err(StoreError::Missing("agent")) } else { Ok(()) }
    }

    pub async fn metadata_of(&self, agent: AgentId) -> Result<Metadata, StoreError> {
        let rows: Vec<Entry> =
            sqlx::query_as("SELECT agent_id, key, value, changed_at FROM metadata WHERE agent_id = $1")
                .bind(agent.0)
                .fetch_all(&self.read)
                .await?;
        Ok(rows.into_iter().map(|entry| (entry.key, entry.dated)).collect())
    }

    /// The metadata of every live agent that has any.
    pub async fn metadata_live(&self) -> Result<Vec<(AgentId, Metadata)>, StoreError> {
        let rows: Vec<Entry> = sqlx::query_as(
            "SELECT m.agent_id, m.key, m.value, m.changed_at FROM metadata m JOIN agents a ON a.id = m.agent_id \
             WHERE a.deleted_at IS NULL",
        )
        .fetch_all(&self.read)
        .await?;
        let mut live: BTreeMap<AgentId, Metadata> = BTreeMap::new();
        for entry in rows {
            live.entry(entry.agent).or_default().insert(entry.key, entry.dated);
        }
        Ok(live.into_iter().collect())
    }
}

struct Entry {
    agent: AgentId,
    key: String,
    dated: Dated,
}

impl FromRow<'_, SqliteRow> for Entry {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            agent: row.id("agent_id", AgentId)?,
            key: row.try_get("key")?,
            dated: Dated { value: row.try_get("value")?, changed_at: row.time("changed_at")? },
        })
    }
}
