//! The journal: every task and report of an agent once, paged as fast from a million rows as from a thousand.

use std::collections::BTreeMap;

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use uuid::Uuid;

use super::Store;
use super::error::StoreError;
use super::row::{Columns, count, micros};
use crate::domain::history::{HistoryEntry, HistoryKind};
use crate::domain::id::{AgentId, TaskId};
use crate::domain::page::{Page, PageRequest};
use crate::domain::task::{TaskSource, TaskState};

/// A query for whole entries; `j` is the entry.
macro_rules! select_entries {
    ($rest:expr) => {
        concat!(
            "SELECT j.id, j.agent_id, j.kind, j.message, j.state, j.outcome, j.source, j.task_id, j.uri, ",
            "j.needs_user_attention, j.generation, j.created_at FROM journal j ",
            $rest
        )
    };
}
pub(super) use select_entries;

impl Store {
    /// Adds what is not known yet; gives how many entries were new.
    pub async fn journal_add(&self, entries: &[HistoryEntry]) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let added = insert(&mut tx, entries).await?;
        tx.commit().await?;
        Ok(added)
    }

    /// One page of an agent's history, newest first by instant, then by id.
    pub async fn journal_page(
        &self,
        agent: AgentId,
        kind: Option<HistoryKind>,
        page: PageRequest,
    ) -> Result<Page<HistoryEntry>, StoreError> {
        let mut read = self.read.begin().await?;
        let total_count = total(&mut read, agent, kind).await?;
        let items = match Window::of(page, total_count) {
            Some(window) => window.read(&mut read, agent, kind).await?,
            None => Vec::new(),
        };
        Ok(Page { items, total_count, request: page })
    }
}

/// Inserts in the caller's transaction and keeps the counts true.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    entries: &[HistoryEntry],
) -> Result<u64, StoreError> {
    let mut added: BTreeMap<(AgentId, HistoryKind), i64> = BTreeMap::new();
    for entry in entries {
        if insert_one(connection, entry).await? {
            *added.entry((entry.agent_id, entry.kind)).or_default() += 1;
        }
    }
    for ((agent, kind), entries) in &added {
        sqlx::query(
            "INSERT INTO journal_counts (agent_id, kind, entries) VALUES ($1, $2, $3) ON CONFLICT (agent_id, kind) \
             DO UPDATE SET entries = journal_counts.entries + excluded.entries",
        )
        .bind(agent.0)
        .bind(kind.word())
        .bind(entries)
        .execute(&mut *connection)
        .await?;
    }
    Ok(count(added.values().sum()))
}

/// Where the kept counts differ from the rows, in sentences.
pub(super) async fn count_findings(connection: &mut SqliteConnection) -> Result<Vec<String>, sqlx::Error> {
    let agents: Vec<Uuid> = sqlx::query_scalar(
        "SELECT agent_id FROM (SELECT agent_id, kind, entries FROM journal_counts UNION ALL \
         SELECT agent_id, kind, -count(*) FROM journal GROUP BY agent_id, kind) AS balance \
         GROUP BY agent_id, kind HAVING sum(entries) <> 0",
    )
    .fetch_all(connection)
    .await?;
    Ok(agents.into_iter().map(|agent| format!("the journal of agent {agent} is miscounted")).collect())
}

async fn insert_one(connection: &mut SqliteConnection, entry: &HistoryEntry) -> Result<bool, sqlx::Error> {
    let is_ended = entry.task_state().is_some_and(TaskState::is_ended);
    let inserted = sqlx::query(
        "INSERT INTO journal (id, agent_id, kind, message, state, outcome, source, task_id, uri, \
         needs_user_attention, generation, created_at, ended_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (id) DO NOTHING",
    )
    .bind(entry.id)
    .bind(entry.agent_id.0)
    .bind(entry.kind.word())
    .bind(&entry.message)
    .bind(&entry.state)
    .bind(&entry.outcome)
    .bind(entry.source.word())
    .bind(entry.task_id.map(|task| task.0))
    .bind(&entry.uri)
    .bind(entry.needs_user_attention)
    .bind(entry.generation)
    .bind(micros(entry.created_at))
    .bind(is_ended.then(|| micros(entry.created_at)))
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

async fn total(
    connection: &mut SqliteConnection,
    agent: AgentId,
    kind: Option<HistoryKind>,
) -> Result<u64, sqlx::Error> {
    let counts = sqlx::query("SELECT kind, entries FROM journal_counts WHERE agent_id = $1")
        .bind(agent.0)
        .fetch_all(connection)
        .await?;
    let mut total = 0;
    for row in &counts {
        let counted = row.word("kind", HistoryKind::parse)?;
        if kind.is_none_or(|kind| kind == counted) {
            total += row.try_get::<i64, _>("entries")?;
        }
    }
    Ok(count(total))
}

/// Which rows make up a page, counted from the end that is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    from: End,
    skip: i64,
    take: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Newest,
    Oldest,
}

/// Finds the ids in an index that holds all it needs, and only then reads the rows themselves.
macro_rules! window_sql {
    ($filter:literal, $order:literal) => {
        select_entries!(concat!(
            "JOIN (SELECT id FROM journal WHERE agent_id = $1 ",
            $filter,
            "ORDER BY created_at ",
            $order,
            ", id ",
            $order,
            " LIMIT $2 OFFSET $3) AS page ON page.id = j.id ORDER BY j.created_at DESC, j.id DESC"
        ))
    };
}

impl Window {
    /// None past the end.
    fn of(page: PageRequest, total: u64) -> Option<Self> {
        let left = total.checked_sub(page.offset()).filter(|left| *left > 0)?;
        let take = left.min(u64::from(page.size()));
        let (from, skip) =
            if page.offset() <= left { (End::Newest, page.offset()) } else { (End::Oldest, left - take) };
        Some(Self { from, skip: skip.cast_signed(), take: take.cast_signed() })
    }

    async fn read(
        self,
        connection: &mut SqliteConnection,
        agent: AgentId,
        kind: Option<HistoryKind>,
    ) -> Result<Vec<HistoryEntry>, sqlx::Error> {
        let sql = match (kind, self.from) {
            (None, End::Newest) => window_sql!("", "DESC"),
            (None, End::Oldest) => window_sql!("", "ASC"),
            (Some(_), End::Newest) => window_sql!("AND kind = $4 ", "DESC"),
            (Some(_), End::Oldest) => window_sql!("AND kind = $4 ", "ASC"),
        };
        let query = sqlx::query_as(sql).bind(agent.0).bind(self.take).bind(self.skip);
        match kind {
            Some(kind) => query.bind(kind.word()).fetch_all(connection).await,
            None => query.fetch_all(connection).await,
        }
    }
}

impl FromRow<'_, SqliteRow> for HistoryEntry {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            agent_id: row.id("agent_id", AgentId)?,
            kind: row.word("kind", HistoryKind::parse)?,
            message: row.try_get("message")?,
            state: row.try_get("state")?,
            outcome: row.try_get("outcome")?,
            source: row.word("source", TaskSource::parse)?,
            task_id: row.id_if_any("task_id", TaskId)?,
            uri: row.try_get("uri")?,
            needs_user_attention: row.try_get("needs_user_attention")?,
            generation: row.try_get("generation")?,
            created_at: row.time("created_at")?,
        })
    }
}
