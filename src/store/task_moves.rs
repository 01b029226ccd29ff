//! Transitions of tasks: every change of state is legal, dated and explained, and an ended task never reopens.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::Row;

use super::db::DbConnection;
use super::error::StoreError;
use super::row::{Columns, micros};
use super::{Store, journal, task_rows, tasks, unassigned_reports};
use crate::domain::history::{HistoryEntry, Report};
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::{Cancel, CancelCause, Claim, EndState, Task, TaskMove, TaskState};
use crate::domain::task_plan::{cancel_reason, ending};

/// The target of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelTarget {
    /// The current task, else the next in the queue, without tasks that are ended for a later one.
    Current,
    All,
}

/// The immediate effect of a cancel, and what remains to be interrupted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CancelTaken {
    /// Waiting tasks that will not start.
    pub ended: Vec<TaskId>,
    /// The task that the agent may be working on.
    pub in_hand: Option<TaskId>,
}

/// The effect of a report beyond its history entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportEffect<'a> {
    /// The outcome of the current task.
    Claim(TaskId, &'a Claim),
    /// The task continues; an earlier claim is withdrawn.
    Continues(TaskId),
    /// The state of an agent without a current task.
    Unassigned,
    Nothing,
}

impl Store {
    /// Saves a task and the states it went through with their reasons. False if the stored task has ended meanwhile
    /// or is ahead.
    pub async fn task_save(
        &self,
        task: &Task,
        moves: &[(TaskState, &str)],
        at: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let known = tasks::by_id(&mut tx, task.id).await?.ok_or(StoreError::Missing("task"))?;
        let (from, to) = (known.state(), task.state());
        if from.is_ended() || !(from == to || from.may_become(to)) {
            return Ok(false);
        }
        write(&mut tx, task, at).await?;
        for (state, reason) in moves {
            let moved = TaskMove { state: *state, ..move_of(task, reason, at) };
            note_move(&mut tx, task.entry.agent_id, &moved).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Records a request to cancel; tasks that have not begun end here.
    pub async fn tasks_cancel(
        &self,
        agent: AgentId,
        target: CancelTarget,
        may_stop: bool,
        at: DateTime<Utc>,
    ) -> Result<CancelTaken, StoreError> {
        let mut tx = self.begin().await?;
        let open = tasks::open_of(&mut tx, agent).await?;
        let n_superseded = open.iter().take_while(|task| task.is_superseded()).count();
        let meant = match target {
            CancelTarget::All => 0..open.len(),
            CancelTarget::Current if n_superseded == open.len() => 0..1,
            // A workspace may be stopped for a task that does not end for its successor.
            CancelTarget::Current if may_stop => 0..n_superseded + 1,
            CancelTarget::Current => n_superseded..n_superseded + 1,
        };
        let mut taken = CancelTaken::default();
        let cancel = Cancel { at, cause: CancelCause::Request, may_stop };
        for task in open.into_iter().take(meant.end).skip(meant.start) {
            if task.state() == TaskState::Queued {
                taken.ended.push(task.id);
                end_waiting(&mut tx, task, cancel).await?;
            } else {
                taken.in_hand = Some(task.id);
                ask_to_cancel(&mut tx, task.id, cancel).await?;
            }
        }
        tx.commit().await?;
        Ok(taken)
    }

    /// Adds a report with its effect. Only a task that the agent is working on can be claimed: if it ended before
    /// the report arrived, the report is about the agent itself. Returns the entry as added.
    pub async fn report_add(&self, report: &Report, effect: ReportEffect<'_>) -> Result<Report, StoreError> {
        let mut tx = self.begin().await?;
        let is_about_task = match effect {
            ReportEffect::Claim(task, claim) => claim_as(&mut tx, task, Some(claim)).await?,
            ReportEffect::Continues(task) => claim_as(&mut tx, task, None).await?,
            ReportEffect::Unassigned => false,
            ReportEffect::Nothing => true,
        };
        let task_id = report.task_id.filter(|_| is_about_task);
        let report = Report { task_id, ..report.clone() };
        journal::insert(&mut tx, &[HistoryEntry::Report(report.clone())]).await?;
        if !is_about_task {
            unassigned_reports::keep(&mut tx, &report).await?;
        }
        tx.commit().await?;
        Ok(report)
    }

    /// The past states of these tasks, oldest first.
    pub async fn task_moves(&self, ids: &[TaskId]) -> Result<HashMap<TaskId, Vec<TaskMove>>, StoreError> {
        let mut read = self.read.begin().await?;
        Ok(moves_of(&mut read, ids).await?)
    }
}

/// Like `task_moves`, in the caller's transaction.
pub(super) async fn moves_of(
    connection: &mut DbConnection,
    ids: &[TaskId],
) -> Result<HashMap<TaskId, Vec<TaskMove>>, sqlx::Error> {
    let mut found = HashMap::new();
    for id in ids {
        let rows = sqlx::query(
            "SELECT task_id, state, reason, generation, at FROM task_moves WHERE task_id = $1 ORDER BY sequence",
        );
        let rows = rows.bind(id.0).fetch_all(&mut *connection).await?;
        let moves = rows.iter().map(|row| {
            Ok(TaskMove {
                task: row.id("task_id", TaskId)?,
                state: row.word("state", TaskState::parse)?,
                reason: row.try_get("reason")?,
                generation: row.try_get("generation")?,
                at: row.time("at")?,
            })
        });
        found.insert(*id, moves.collect::<Result<Vec<_>, sqlx::Error>>()?);
    }
    Ok(found)
}

/// False if the agent is not working on the task.
async fn claim_as(
    connection: &mut DbConnection,
    task: TaskId,
    claim: Option<&Claim>,
) -> Result<bool, sqlx::Error> {
    let claimed = sqlx::query(
        "UPDATE task_deliveries SET claim = $1, claim_text = $2, claim_at = $3 \
         WHERE task_id = $4 AND working_since IS NOT NULL \
         AND EXISTS (SELECT 1 FROM journal WHERE id = $4 AND ended_at IS NULL)",
    )
    .bind(claim.map(|claim| claim.kind.word()))
    .bind(claim.map(|claim| claim.text.as_str()))
    .bind(claim.map(|claim| micros(claim.at)))
    .bind(task.0)
    .execute(connection)
    .await?;
    Ok(claimed.rows_affected() == 1)
}

/// Ends the open tasks of a deleted agent.
pub(super) async fn end_all(
    connection: &mut DbConnection,
    agent: AgentId,
    at: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    for task in tasks::open_of(connection, agent).await? {
        end(connection, task, ("the agent was deleted", EndState::Canceled), at).await?;
    }
    Ok(())
}

/// The first request is kept with its cause, so that its deadlines hold; a later one may only permit more.
pub(super) async fn ask_to_cancel(
    connection: &mut DbConnection,
    task: TaskId,
    cancel: Cancel,
) -> Result<(), sqlx::Error> {
    let by = match cancel.cause {
        CancelCause::Request => None,
        CancelCause::Interrupt(by) => Some(by.0),
    };
    sqlx::query(
        "UPDATE task_deliveries SET cancel_by = CASE WHEN cancel_at IS NULL THEN $1 ELSE cancel_by END, \
         cancel_at = COALESCE(cancel_at, $2), \
         cancel_may_stop = CASE WHEN $3 THEN TRUE ELSE cancel_may_stop END WHERE task_id = $4",
    )
    .bind(by)
    .bind(micros(cancel.at))
    .bind(cancel.may_stop)
    .bind(task.0)
    .execute(connection)
    .await
    .map(drop)
}

/// Ends a task that was never delivered.
pub(super) async fn end_waiting(
    connection: &mut DbConnection,
    task: Task,
    cancel: Cancel,
) -> Result<(), sqlx::Error> {
    ask_to_cancel(connection, task.id, cancel).await?;
    let reason = cancel_reason(cancel.cause, "canceled while it was queued", "it had not been delivered yet");
    end(connection, task, (&reason, EndState::Canceled), cancel.at).await
}

pub(super) async fn note_move(
    connection: &mut DbConnection,
    agent: AgentId,
    moved: &TaskMove,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO task_moves (task_id, agent_id, state, reason, generation, at) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(moved.task.0)
    .bind(agent.0)
    .bind(moved.state.word())
    .bind(&moved.reason)
    .bind(moved.generation)
    .bind(micros(moved.at))
    .execute(connection)
    .await
    .map(drop)
}

async fn end(
    connection: &mut DbConnection,
    mut task: Task,
    (reason, state): (&str, EndState),
    at: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let nothing_seen = None;
    task.end(&ending(state, Some(reason)), nothing_seen, at);
    write(connection, &task, at).await?;
    note_move(connection, task.entry.agent_id, &move_of(&task, reason, at)).await
}

async fn write(connection: &mut DbConnection, task: &Task, at: DateTime<Utc>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE journal SET state = $1, outcome = $2, needs_user_attention = $3, generation = $4, ended_at = $5 \
         WHERE id = $6",
    )
    .bind(task.state().word())
    .bind(task.outcome())
    .bind(task.needs_answer())
    .bind(task.entry.generation)
    .bind(task.state().is_ended().then(|| micros(at)))
    .bind(task.id.0)
    .execute(&mut *connection)
    .await?;
    task_rows::update(connection, task).await
}

fn move_of(task: &Task, reason: &str, at: DateTime<Utc>) -> TaskMove {
    TaskMove {
        task: task.id,
        state: task.state(),
        reason: reason.to_owned(),
        generation: task.entry.generation,
        at,
    }
}
