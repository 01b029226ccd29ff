//! Runs: recorded before the first effect, with their progress and an end that never changes.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::Store;
use super::db::DbRow;
use super::error::StoreError;
use super::row::{Columns, count, micros, micros_if_any, unreadable};
use crate::domain::engine_word::EngineWord;
use crate::domain::id::{AgentId, RunId};
use crate::domain::run::{CancelCause, EngineOutput, EngineRun, Run, RunCancel, RunEnd, RunState};
use crate::domain::usage::{Figures, Spender};

macro_rules! select_runs {
    ($rest:literal) => {
        concat!(
            "SELECT id, agent_id, generation, purpose, argv, container, timeout_ms, state, code, reason, stdout, ",
            "stderr, cancel_asked_at, cancel_cause, created_at, ended_at AS run_ended_at, is_cleared, engine, output, ",
            "spender, model, conversation, before_input_tokens, before_output_tokens, before_cost_micros FROM runs ",
            $rest
        )
    };
}

macro_rules! open_runs {
    () => {
        select_runs!("WHERE NOT is_cleared ORDER BY created_at, id")
    };
}

impl Store {
    /// Records a run before it has any effect.
    pub async fn run_accept(&self, run: &Run) -> Result<(), StoreError> {
        let (word, code, reason, ended_at) = columns_of(&run.state);
        let engine = run.engine.as_ref();
        let before = engine.map(|engine| engine.before).unwrap_or_default();
        let insert = sqlx::query(
            "INSERT INTO runs (id, agent_id, generation, purpose, argv, container, timeout_ms, state, code, \
             reason, stdout, stderr, cancel_asked_at, cancel_cause, created_at, ended_at, is_cleared, engine, output, \
             spender, model, conversation, before_input_tokens, before_output_tokens, before_cost_micros) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, \
             $22, $23, $24, $25)",
        )
        .bind(run.id.0)
        .bind(run.agent_id.0)
        .bind(run.generation)
        .bind(&run.purpose)
        .bind(Json(&run.argv))
        .bind(&run.container)
        .bind(i64::try_from(run.timeout.as_millis()).unwrap_or(i64::MAX))
        .bind(word)
        .bind(code)
        .bind(reason)
        .bind(signed(run.stdout))
        .bind(signed(run.stderr))
        .bind(micros_if_any(run.cancel.map(|cancel| cancel.at)))
        .bind(run.cancel.map(|cancel| cancel.cause.word()))
        .bind(micros(run.created_at))
        .bind(micros_if_any(ended_at))
        .bind(run.is_cleared)
        .bind(engine.map(|engine| engine.engine.word()))
        .bind(engine.map(|engine| engine.output.word()))
        .bind(engine.map(|engine| engine.spender.word()))
        .bind(engine.and_then(|engine| engine.model.as_ref()))
        .bind(engine.and_then(|engine| engine.conversation.as_ref()))
        .bind(signed(before.input_tokens))
        .bind(signed(before.output_tokens))
        .bind(before.cost_micros.map(signed));
        insert.execute(&self.write).await?;
        Ok(())
    }

    pub async fn run_by_id(&self, id: RunId) -> Result<Option<Run>, StoreError> {
        let query = sqlx::query_as(select_runs!("WHERE id = $1"));
        Ok(query.bind(id.0).fetch_optional(&self.read).await?)
    }

    /// Runs that have not ended or still have files in their workspace, oldest first.
    pub async fn runs_open(&self) -> Result<Vec<Run>, StoreError> {
        Ok(sqlx::query_as(open_runs!()).fetch_all(&self.read).await?)
    }

    /// The workspace confirmed that it runs.
    pub async fn run_started(&self, id: RunId) -> Result<(), StoreError> {
        let update = sqlx::query("UPDATE runs SET state = $1 WHERE id = $2 AND ended_at IS NULL");
        update.bind(RUNNING).bind(id.0).execute(&self.write).await?;
        Ok(())
    }

    /// Records a request to end it. False if it has ended already; the first request is kept.
    pub async fn run_ask_cancel(&self, id: RunId, cancel: RunCancel) -> Result<bool, StoreError> {
        let update = sqlx::query(
            "UPDATE runs SET cancel_asked_at = COALESCE(cancel_asked_at, $1), \
             cancel_cause = CASE WHEN cancel_asked_at IS NULL THEN $2 ELSE cancel_cause END \
             WHERE id = $3 AND ended_at IS NULL",
        );
        let update = update.bind(micros(cancel.at)).bind(cancel.cause.word()).bind(id.0);
        Ok(update.execute(&self.write).await?.rows_affected() == 1)
    }

    /// Ends a run. False if it had ended already: an end is never changed.
    pub async fn run_end(&self, id: RunId, end: &RunEnd, at: DateTime<Utc>) -> Result<bool, StoreError> {
        let (word, code, reason) = columns_of_end(end);
        let update = sqlx::query(
            "UPDATE runs SET state = $1, code = $2, reason = $3, ended_at = $4 WHERE id = $5 AND ended_at IS NULL",
        )
        .bind(word)
        .bind(code)
        .bind(reason)
        .bind(micros(at))
        .bind(id.0);
        Ok(update.execute(&self.write).await?.rows_affected() == 1)
    }

    /// The workspace has no files of it any more. Only for ended runs.
    pub async fn run_cleared(&self, id: RunId) -> Result<(), StoreError> {
        let update = sqlx::query("UPDATE runs SET is_cleared = TRUE WHERE id = $1 AND ended_at IS NOT NULL");
        update.bind(id.0).execute(&self.write).await?;
        Ok(())
    }
}

const ACCEPTED: &str = "accepted";
const RUNNING: &str = "running";
const EXITED: &str = "exited";
const SIGNALED: &str = "signaled";
const TIMED_OUT: &str = "timed_out";
const CANCELED: &str = "canceled";
const OVER_BUDGET: &str = "over_budget";
const FAILED: &str = "failed";
const UNSTARTED: &str = "unstarted";
const LOST: &str = "lost";

/// The four columns of a state: keyword, code, reason, time of the end.
fn columns_of(state: &RunState) -> (&'static str, Option<i32>, Option<&str>, Option<DateTime<Utc>>) {
    match state {
        RunState::Accepted => (ACCEPTED, None, None, None),
        RunState::Running => (RUNNING, None, None, None),
        RunState::Ended { end, at } => {
            let (word, code, reason) = columns_of_end(end);
            (word, code, reason, Some(*at))
        }
    }
}

fn columns_of_end(end: &RunEnd) -> (&'static str, Option<i32>, Option<&str>) {
    match end {
        RunEnd::Exited { code } => (EXITED, Some(*code), None),
        RunEnd::Signaled { signal } => (SIGNALED, Some(*signal), None),
        RunEnd::TimedOut => (TIMED_OUT, None, None),
        RunEnd::Canceled => (CANCELED, None, None),
        RunEnd::OverBudget => (OVER_BUDGET, None, None),
        RunEnd::Failed { reason } => (FAILED, None, Some(reason)),
        RunEnd::Unstarted => (UNSTARTED, None, None),
        RunEnd::Lost { reason } => (LOST, None, Some(reason)),
    }
}

/// The state of the run in this row, which names the time of its end `run_ended_at`.
pub(super) fn state_of(row: &DbRow) -> Result<RunState, sqlx::Error> {
    match (row.try_get("state")?, row.time_if_any("run_ended_at")?) {
        (ACCEPTED, None) => Ok(RunState::Accepted),
        (RUNNING, None) => Ok(RunState::Running),
        (word, Some(at)) => Ok(RunState::Ended { end: end_of(row, word)?, at }),
        (word, None) => Err(unreadable("state", word)),
    }
}

fn end_of(row: &DbRow, word: &str) -> Result<RunEnd, sqlx::Error> {
    Ok(match word {
        EXITED => RunEnd::Exited { code: row.try_get("code")? },
        SIGNALED => RunEnd::Signaled { signal: row.try_get("code")? },
        TIMED_OUT => RunEnd::TimedOut,
        CANCELED => RunEnd::Canceled,
        OVER_BUDGET => RunEnd::OverBudget,
        FAILED => RunEnd::Failed { reason: row.try_get("reason")? },
        UNSTARTED => RunEnd::Unstarted,
        LOST => RunEnd::Lost { reason: row.try_get("reason")? },
        other => return Err(unreadable("state", other)),
    })
}

/// A request without a cause is older than the causes.
fn cancel_of(row: &DbRow) -> Result<Option<RunCancel>, sqlx::Error> {
    let Some(at) = row.time_if_any("cancel_asked_at")? else { return Ok(None) };
    let cause = row.word_if_any("cancel_cause", CancelCause::parse)?.unwrap_or(CancelCause::Request);
    Ok(Some(RunCancel { at, cause }))
}

fn engine_of(row: &DbRow) -> Result<Option<EngineRun>, sqlx::Error> {
    let Some(engine) = row.word_if_any("engine", EngineWord::parse)? else { return Ok(None) };
    Ok(Some(EngineRun {
        engine,
        output: row.word("output", EngineOutput::parse)?,
        spender: row.word("spender", Spender::parse)?,
        model: row.try_get("model")?,
        conversation: row.try_get("conversation")?,
        before: Figures {
            input_tokens: count(row.try_get("before_input_tokens")?),
            output_tokens: count(row.try_get("before_output_tokens")?),
            cost_micros: row.try_get::<Option<i64>, _>("before_cost_micros")?.map(count),
            unknown_runs: 0,
        },
    }))
}

/// Streams are far shorter than the limit of this type.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl FromRow<'_, DbRow> for Run {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        let Json(argv) = row.try_get("argv")?;
        Ok(Self {
            id: row.id("id", RunId)?,
            agent_id: row.id("agent_id", AgentId)?,
            generation: row.try_get("generation")?,
            purpose: row.try_get("purpose")?,
            argv,
            container: row.try_get("container")?,
            timeout: Duration::from_millis(count(row.try_get("timeout_ms")?)),
            state: state_of(row)?,
            stdout: count(row.try_get("stdout")?),
            stderr: count(row.try_get("stderr")?),
            cancel: cancel_of(row)?,
            engine: engine_of(row)?,
            created_at: row.time("created_at")?,
            is_cleared: row.try_get("is_cleared")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::store::db::query_plan;
    use crate::store::{Store, StoreOptions};

    #[tokio::test]
    async fn open_runs_are_found_without_walking_all_runs() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { path: dir.path().join("fleet.db"), backups: dir.path().join("backups") };
        let store = Store::open(&options).await.unwrap();
        let plan = query_plan(&store.read, open_runs!()).await;
        assert_eq!(plan, ["SCAN runs USING INDEX runs_open", "USE TEMP B-TREE FOR LAST TERM OF ORDER BY"]);
    }
}
