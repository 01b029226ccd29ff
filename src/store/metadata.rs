//! Metadata set through the fleet, in addition to what Coder reports.

use std::collections::BTreeMap;

use sqlx::{FromRow, Row};

use super::Store;
use super::db::DbRow;
use super::error::StoreError;
use super::row::{Columns, micros};
use crate::domain::id::AgentId;
use crate::domain::metadata::{Dated, MOST_BYTES, MOST_KEYS, Metadata, MetadataKey, is_value};

impl Store {
    /// Sets a value, within the bounds; an empty one removes its key.
    pub async fn metadata_set(
        &self,
        agent: AgentId,
        key: &MetadataKey,
        dated: &Dated,
    ) -> Result<(), StoreError> {
        if !is_value(&dated.value) {
            return self.metadata_unset(agent, key).await;
        }
        let set = sqlx::query(
            "INSERT INTO metadata (agent_id, key, value, changed_at) SELECT id, $2, $3, $4 FROM agents WHERE id = $1 \
             AND (SELECT count(*) < $5 AND \
             coalesce(sum(octet_length(key) + octet_length(value)), 0) + $6 <= $7 \
             FROM metadata WHERE agent_id = $1 AND key <> $2) \
             ON CONFLICT (agent_id, key) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at",
        )
        .bind(agent.0)
        .bind(key.as_str())
        .bind(&dated.value)
        .bind(micros(dated.changed_at))
        .bind(count(MOST_KEYS))
        .bind(count(key.as_str().len() + dated.value.len()))
        .bind(count(MOST_BYTES))
        .execute(&self.write)
        .await?;
        match set.rows_affected() {
            0 if self.agent_is_known(agent).await? => Err(StoreError::MetadataFull),
            0 => Err(StoreError::Missing("agent")),
            _ => Ok(()),
        }
    }

    async fn metadata_unset(&self, agent: AgentId, key: &MetadataKey) -> Result<(), StoreError> {
        let unset = sqlx::query("DELETE FROM metadata WHERE agent_id = $1 AND key = $2");
        unset.bind(agent.0).bind(key.as_str()).execute(&self.write).await?;
        Ok(())
    }

    async fn agent_is_known(&self, agent: AgentId) -> Result<bool, StoreError> {
        let known = sqlx::query("SELECT 1 FROM agents WHERE id = $1").bind(agent.0);
        Ok(known.fetch_optional(&self.read).await?.is_some())
    }

    pub async fn metadata_of(&self, agent: AgentId) -> Result<Metadata, StoreError> {
        let rows: Vec<Entry> =
            sqlx::query_as("SELECT agent_id, key, value, changed_at FROM metadata WHERE agent_id = $1")
                .bind(agent.0)
                .fetch_all(&self.read)
                .await?;
        Ok(rows.into_iter().map(|entry| (entry.key, entry.dated)).collect())
    }

    /// The metadata of every live agent with any.
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

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

struct Entry {
    agent: AgentId,
    key: String,
    dated: Dated,
}

impl FromRow<'_, DbRow> for Entry {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            agent: row.id("agent_id", AgentId)?,
            key: row.try_get("key")?,
            dated: Dated { value: row.try_get("value")?, changed_at: row.time("changed_at")? },
        })
    }
}
