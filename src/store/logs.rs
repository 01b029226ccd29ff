//! Logs: the newest part of each agent's conversation, kept across restarts and deletion.

use sqlx::{FromRow, Row};

use super::Store;
use super::db::{DbConnection, DbRow};
use super::error::StoreError;
use super::row::{Columns, count, micros};
use crate::domain::id::AgentId;
use crate::domain::log::{LogEntry, LogKind};
use crate::domain::page::{Page, PageRequest};

/// Older messages of an agent are removed.
const KEPT: i64 = 1_000;

impl Store {
    /// Adds messages; a message that has grown replaces its earlier version.
    pub async fn log_add(&self, agent: AgentId, entries: &[LogEntry]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        if let Some(former) = begun_anew(&mut tx, agent, entries).await? {
            set_aside(&mut tx, agent, former).await?;
        }
        for entry in entries {
            sqlx::query(
                "INSERT INTO agent_logs (agent_id, conversation, number, kind, content, time) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (agent_id, conversation, number) DO UPDATE \
                 SET content = excluded.content WHERE agent_logs.content <> excluded.content",
            )
            .bind(agent.0)
            .bind(entry.conversation)
            .bind(entry.number)
            .bind(entry.kind.word())
            .bind(&entry.content)
            .bind(micros(entry.time))
            .execute(&mut *tx)
            .await?;
        }
        sqlx::query(
            "DELETE FROM agent_logs WHERE agent_id = $1 AND time < (SELECT time FROM agent_logs \
             WHERE agent_id = $1 ORDER BY time DESC LIMIT 1 OFFSET $2)",
        )
        .bind(agent.0)
        .bind(KEPT - 1)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }

    /// One page of an agent's log, newest first.
    pub async fn log_page(&self, agent: AgentId, page: PageRequest) -> Result<Page<LogEntry>, StoreError> {
        let mut read = self.read.begin().await?;
        let total: i64 = sqlx::query_scalar("SELECT count(*) FROM agent_logs WHERE agent_id = $1")
            .bind(agent.0)
            .fetch_one(&mut *read)
            .await?;
        let items = sqlx::query_as(
            "SELECT conversation, number, kind, content, time FROM agent_logs WHERE agent_id = $1 \
             ORDER BY time DESC, conversation DESC, number DESC LIMIT $2 OFFSET $3",
        )
        .bind(agent.0)
        .bind(i64::from(page.size()))
        .bind(page.offset().cast_signed())
        .fetch_all(&mut *read)
        .await?;
        Ok(Page { items, total_count: count(total), request: page })
    }
}

/// The stored conversation, if these messages do not continue it: an agent that lost its conversation starts
/// numbering again. Messages to an agent never change their time, so comparing those is enough.
async fn begun_anew(
    connection: &mut DbConnection,
    agent: AgentId,
    entries: &[LogEntry],
) -> Result<Option<i64>, sqlx::Error> {
    for entry in entries.iter().filter(|entry| entry.kind == LogKind::Input) {
        let is_another: Option<bool> = sqlx::query_scalar(
            "SELECT kind <> $4 OR time <> $5 FROM agent_logs \
             WHERE agent_id = $1 AND conversation = $2 AND number = $3",
        )
        .bind(agent.0)
        .bind(entry.conversation)
        .bind(entry.number)
        .bind(entry.kind.word())
        .bind(micros(entry.time))
        .fetch_optional(&mut *connection)
        .await?;
        if is_another == Some(true) {
            return Ok(Some(entry.conversation));
        }
    }
    Ok(None)
}

/// Renumbers an ended conversation with an unused number.
async fn set_aside(
    connection: &mut DbConnection,
    agent: AgentId,
    conversation: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE agent_logs SET conversation = (SELECT CASE WHEN min(conversation) < 0 THEN min(conversation) \
         ELSE 0 END - 1 FROM agent_logs WHERE agent_id = $1) WHERE agent_id = $1 AND conversation = $2",
    )
    .bind(agent.0)
    .bind(conversation)
    .execute(connection)
    .await
    .map(drop)
}

impl FromRow<'_, DbRow> for LogEntry {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            conversation: row.try_get("conversation")?,
            number: row.try_get("number")?,
            kind: row.word("kind", LogKind::parse)?,
            content: row.try_get("content")?,
            time: row.time("time")?,
        })
    }
}
