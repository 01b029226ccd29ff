//! The journal: every task and report of an agent once, paged equally fast at a million rows and at a thousand.

use std::collections::BTreeMap;

use sqlx::{FromRow, Row};
use uuid::Uuid;

use super::db::{DbConnection, DbRow};
use super::error::StoreError;
use super::journal_window::{DAY_MICROS, Day, PageStart, Window, day_of};
use super::row::{Columns, count, micros, unreadable};
use super::{Store, report_tasks};
use crate::domain::history::{HistoryEntry, HistoryKind, HistoryLine, Report, TaskEntry};
use crate::domain::id::{AgentId, TaskId};
use crate::domain::page::{Page, PageRequest};
use crate::domain::task::{TaskProgress, TaskSource, TaskState};
use crate::domain::words::AppState;

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

impl Store {
    /// Adds unknown reports, each with its task; returns how many were new.
    pub async fn journal_add(&self, reports: &[Report]) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let mut new = Vec::new();
        for report in reports {
            if !is_known(&mut tx, report.id).await? {
                let task_id = report_tasks::task_of(&mut tx, report).await?;
                new.push(HistoryEntry::Report(Report {
                    task_id: report.task_id.or(task_id),
                    ..report.clone()
                }));
            }
        }
        let added = insert(&mut tx, &new).await?;
        tx.commit().await?;
        Ok(added)
    }
}

/// One page of an agent's history, newest first by instant, then by id, in the caller's transaction.
pub(super) async fn page_of(
    connection: &mut DbConnection,
    agent: AgentId,
    kind: Option<HistoryKind>,
    page: PageRequest,
) -> Result<Page<HistoryEntry>, sqlx::Error> {
    let days = days(connection, agent, kind).await?;
    let items = match Window::of(page, &days) {
        Some(window) => read_window(connection, window, agent, kind).await?,
        None => Vec::new(),
    };
    let total_count = days.iter().map(|day| day.entries).sum();
    Ok(Page { items, total_count, request: page })
}

/// Inserts in the caller's transaction and updates the counts of the days.
pub(super) async fn insert(
    connection: &mut DbConnection,
    entries: &[HistoryEntry],
) -> Result<u64, StoreError> {
    let mut added: BTreeMap<(AgentId, HistoryKind, i64), i64> = BTreeMap::new();
    for entry in entries {
        if insert_one(connection, entry).await? {
            let line = entry.line();
            let day = day_of(micros(line.created_at));
            *added.entry((line.agent_id, entry.kind(), day)).or_default() += 1;
        }
    }
    for ((agent, kind, day), entries) in &added {
        sqlx::query(
            "INSERT INTO journal_days (agent_id, kind, day, entries) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (agent_id, kind, day) DO UPDATE SET entries = journal_days.entries + excluded.entries",
        )
        .bind(agent.0)
        .bind(kind.word())
        .bind(day)
        .bind(entries)
        .execute(&mut *connection)
        .await?;
    }
    Ok(count(added.values().sum()))
}

/// Differences between the stored counts and the entries, in sentences.
pub(super) async fn count_findings(connection: &mut DbConnection) -> Result<Vec<String>, sqlx::Error> {
    let agents: Vec<Uuid> = sqlx::query_scalar(
        "SELECT DISTINCT agent_id FROM (SELECT agent_id, kind, day, entries FROM journal_days UNION ALL \
         SELECT agent_id, kind, (created_at - ((created_at % $1) + $1) % $1) / $1, -1 FROM journal) AS balance \
         GROUP BY agent_id, kind, day HAVING sum(entries) <> 0",
    )
    .bind(DAY_MICROS)
    .fetch_all(connection)
    .await?;
    Ok(agents.into_iter().map(|agent| format!("the counts of agent {agent}'s journal are wrong")).collect())
}

async fn is_known(connection: &mut DbConnection, id: Uuid) -> Result<bool, sqlx::Error> {
    let known =
        sqlx::query("SELECT 1 FROM journal WHERE id = $1").bind(id).fetch_optional(connection).await?;
    Ok(known.is_some())
}

async fn insert_one(connection: &mut DbConnection, entry: &HistoryEntry) -> Result<bool, sqlx::Error> {
    let line = entry.line();
    let inserted = sqlx::query(
        "INSERT INTO journal (id, agent_id, kind, message, state, outcome, source, task_id, uri, \
         needs_user_attention, generation, created_at, ended_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (id) DO NOTHING",
    )
    .bind(entry.id())
    .bind(line.agent_id.0)
    .bind(entry.kind().word())
    .bind(&line.message)
    .bind(entry.state())
    .bind(entry.outcome())
    .bind(line.source.word())
    .bind(entry.task_id().map(|task| task.0))
    .bind(entry.uri())
    .bind(entry.needs_answer())
    .bind(line.generation)
    .bind(micros(line.created_at))
    .bind((!entry.is_open()).then(|| micros(line.created_at)))
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// The days that have entries, newest first.
async fn days(
    connection: &mut DbConnection,
    agent: AgentId,
    kind: Option<HistoryKind>,
) -> Result<Vec<Day>, sqlx::Error> {
    let query = match kind {
        None => sqlx::query_as(
            "SELECT day, CAST(sum(entries) AS BIGINT) AS entries FROM journal_days WHERE agent_id = $1 \
             GROUP BY day ORDER BY day DESC",
        )
        .bind(agent.0),
        Some(kind) => sqlx::query_as(
            "SELECT day, entries FROM journal_days WHERE agent_id = $1 AND kind = $2 ORDER BY day DESC",
        )
        .bind(agent.0)
        .bind(kind.word()),
    };
    query.fetch_all(connection).await
}

/// Finds the ids in a covering index first, and then reads only those entries.
macro_rules! window_sql {
    ($edge:literal, $order:literal, $kind:literal) => {
        select_entries!(concat!(
            "JOIN (SELECT id FROM journal WHERE agent_id = $1 AND created_at ",
            $edge,
            " $2 ",
            $kind,
            "ORDER BY created_at ",
            $order,
            ", id ",
            $order,
            " LIMIT $3 OFFSET $4) AS page ON page.id = j.id ORDER BY j.created_at DESC, j.id DESC"
        ))
    };
}

async fn read_window(
    connection: &mut DbConnection,
    window: Window,
    agent: AgentId,
    kind: Option<HistoryKind>,
) -> Result<Vec<HistoryEntry>, sqlx::Error> {
    let (sql, instant) = match (window.from, kind) {
        (PageStart::Before(instant), None) => (window_sql!("<", "DESC", ""), instant),
        (PageStart::From(instant), None) => (window_sql!(">=", "ASC", ""), instant),
        (PageStart::Before(instant), Some(_)) => (window_sql!("<", "DESC", "AND kind = $5 "), instant),
        (PageStart::From(instant), Some(_)) => (window_sql!(">=", "ASC", "AND kind = $5 "), instant),
    };
    let query = sqlx::query_as(sql).bind(agent.0).bind(instant).bind(window.take).bind(window.skip);
    match kind {
        Some(kind) => query.bind(kind.word()).fetch_all(connection).await,
        None => query.fetch_all(connection).await,
    }
}

impl FromRow<'_, DbRow> for Day {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self { number: row.try_get("day")?, entries: count(row.try_get("entries")?) })
    }
}

impl FromRow<'_, DbRow> for HistoryEntry {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        let line = line_of(row)?;
        match row.word("kind", HistoryKind::parse)? {
            HistoryKind::Task => {
                Ok(Self::Task(TaskEntry { id: row.id("id", TaskId)?, line, progress: progress_of(row)? }))
            }
            HistoryKind::Report => Ok(Self::Report(Report {
                id: row.try_get("id")?,
                line,
                state: AppState::from_word(row.try_get("state")?),
                task_id: row.id_if_any("task_id", TaskId)?,
                uri: row.try_get("uri")?,
                needs_answer: row.try_get("needs_user_attention")?,
            })),
        }
    }
}

/// What every row of the journal has.
pub(super) fn line_of(row: &DbRow) -> Result<HistoryLine, sqlx::Error> {
    Ok(HistoryLine {
        agent_id: row.id("agent_id", AgentId)?,
        message: row.try_get("message")?,
        source: row.word("source", TaskSource::parse)?,
        generation: row.try_get("generation")?,
        created_at: row.time("created_at")?,
    })
}

/// How far the task of a row has come; only an ended one has an outcome.
pub(super) fn progress_of(row: &DbRow) -> Result<TaskProgress, sqlx::Error> {
    let state = row.word("state", TaskState::parse)?;
    TaskProgress::of(state, row.try_get("outcome")?, row.try_get("needs_user_attention")?)
        .ok_or_else(|| unreadable("state", format!("{state} with an outcome")))
}
