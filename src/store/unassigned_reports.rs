//! Reports of agents about themselves while they have no current task.

use sqlx::{FromRow, Row};

use super::db::{DbConnection, DbRow};
use super::row::{Columns, micros};
use crate::domain::history::Report;
use crate::domain::id::AgentId;
use crate::domain::task::UnassignedReport;
use crate::domain::words::AppState;

/// Reports from after the last transition of the agent's tasks, without those of other processes in its workspace.
macro_rules! select_reports {
    ($rest:literal) => {
        concat!(
            "SELECT w.agent_id, w.state, w.text, w.is_question, w.generation, w.number, w.at FROM agent_words w ",
            "JOIN agents a ON a.id = w.agent_id WHERE NOT EXISTS (SELECT 1 ",
            "FROM task_moves m JOIN task_deliveries d ON d.task_id = m.task_id ",
            "WHERE m.agent_id = w.agent_id AND m.sequence > w.sequence AND d.origin <> 'run') AND ",
            $rest
        )
    };
}

struct OfAgent(AgentId, UnassignedReport);

pub(super) async fn of(
    connection: &mut DbConnection,
    agent: AgentId,
) -> Result<Option<UnassignedReport>, sqlx::Error> {
    let query = sqlx::query_as(select_reports!("w.agent_id = $1")).bind(agent.0);
    let found: Option<OfAgent> = query.fetch_optional(connection).await?;
    Ok(found.map(|OfAgent(_, report)| report))
}

pub(super) async fn of_live(
    connection: &mut DbConnection,
) -> Result<impl Iterator<Item = (AgentId, UnassignedReport)> + use<>, sqlx::Error> {
    let query = sqlx::query_as(select_reports!("a.deleted_at IS NULL"));
    let found: Vec<OfAgent> = query.fetch_all(connection).await?;
    Ok(found.into_iter().map(|OfAgent(agent, report)| (agent, report)))
}

/// Keeps only the newest report.
pub(super) async fn keep(connection: &mut DbConnection, report: &Report) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO agent_words (agent_id, state, text, is_question, generation, sequence, at, number) \
         VALUES ($1, $2, $3, $4, $5, COALESCE((SELECT max(sequence) FROM task_moves WHERE agent_id = $1), 0), $6, 1) \
         ON CONFLICT (agent_id) DO UPDATE SET state = excluded.state, text = excluded.text, \
         is_question = excluded.is_question, generation = excluded.generation, sequence = excluded.sequence, \
         at = excluded.at, number = agent_words.number + 1",
    )
    .bind(report.line.agent_id.0)
    .bind(report.state.word())
    .bind(&report.line.message)
    .bind(report.needs_answer)
    .bind(report.line.generation)
    .bind(micros(report.line.created_at))
    .execute(connection)
    .await
    .map(drop)
}

impl FromRow<'_, DbRow> for OfAgent {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        let report = UnassignedReport {
            state: AppState::from_word(row.try_get("state")?),
            text: row.try_get("text")?,
            is_question: row.try_get("is_question")?,
            generation: row.try_get("generation")?,
            number: row.try_get("number")?,
            at: row.time("at")?,
        };
        Ok(Self(row.id("agent_id", AgentId)?, report))
    }
}
