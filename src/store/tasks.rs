//! Tasks: accepted once, found by agent, and which of them are current.

use std::collections::BTreeMap;

use sqlx::Row;

use super::db::DbConnection;
use super::error::StoreError;
use super::row::Columns;
use super::task_moves::{ask_to_cancel, end_waiting, note_move};
use super::task_rows::{self, select_tasks};
use super::{RequestKey, Store, journal, request_keys, unassigned_reports};
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::{
    Cancel, CancelCause, SeenTasks, Task, TaskMove, TaskOrigin, TaskState, UnassignedReport,
};
use crate::domain::task_order::{Admission, admit, place};

/// The tasks that determine an agent's status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LatestTasks {
    /// The current task, else the next in the queue.
    pub open: Option<Task>,
    /// A task that a separate process carries out beside the agent.
    pub running: Option<Task>,
    /// The task that ended last.
    pub last: Option<Task>,
    /// The agent's report about itself since the last transition of a task.
    pub report: Option<UnassignedReport>,
    /// Grows with every transition of any of the agent's tasks.
    pub version: i64,
}

/// Orders reads of an agent's tasks: by the last transition, then by a later report of the agent.
pub type TasksStamp = (i64, Option<i64>);

impl LatestTasks {
    pub fn stamp(&self) -> TasksStamp {
        (self.version, self.report.as_ref().map(|report| report.number))
    }
}

/// A task that was accepted, now or before with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAccepted {
    pub task: Task,
    /// Tasks that it waits for.
    pub n_before: usize,
    /// Tasks that it interrupted.
    pub n_interrupted: usize,
}

impl LatestTasks {
    /// An agent's report about itself is valid only in the start it was made in.
    pub fn seen(&self, generation: i64) -> SeenTasks<'_> {
        SeenTasks {
            open: self.open.as_ref(),
            running: self.running.as_ref(),
            last: self.last.as_ref(),
            report: self.report.as_ref().filter(|report| report.generation == generation),
        }
    }
}

/// Only tasks are ever open. Naming the kind as well would make SQLite use an index over all tasks. The order is
/// that of `domain::task_order::place`.
macro_rules! next_open {
    ($agent:literal) => {
        concat!(
            "SELECT journal.id FROM journal JOIN task_deliveries ON task_deliveries.task_id = journal.id WHERE agent_id = ",
            $agent,
            " AND ended_at IS NULL AND origin <> 'run' ORDER BY CASE WHEN state = 'queued' THEN 1 ELSE 0 END, ",
            "created_at, journal.id LIMIT 1"
        )
    };
}

macro_rules! first_running {
    ($agent:literal) => {
        concat!(
            "SELECT journal.id FROM journal JOIN task_deliveries ON task_deliveries.task_id = journal.id WHERE agent_id = ",
            $agent,
            " AND ended_at IS NULL AND origin = 'run' AND state = 'working' ORDER BY created_at, journal.id LIMIT 1"
        )
    };
}

macro_rules! last_ended {
    ($agent:literal) => {
        concat!(
            "SELECT id FROM journal WHERE agent_id = ",
            $agent,
            " AND kind = 'task' AND ended_at IS NOT NULL ORDER BY ended_at DESC, created_at DESC, id DESC LIMIT 1"
        )
    };
}

/// The entry that such a query selects for each live agent.
macro_rules! of_each_live_agent {
    ($pick:expr) => {
        select_tasks!(concat!("JOIN agents a ON j.id = (", $pick, ") WHERE a.deleted_at IS NULL"))
    };
}

impl Store {
    /// Accepts a task, or finds the one accepted before with the same request key. Decided in the transaction, so
    /// that concurrent requests are ordered.
    pub async fn task_accept(
        &self,
        task: &Task,
        admission: Admission,
        key: Option<&RequestKey>,
    ) -> Result<TaskAccepted, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(earlier) = by_key(&mut tx, key).await? {
            return Ok(earlier);
        }
        let (mut task, agent) = (task.clone(), task.entry.agent_id);
        require_live(&mut tx, agent).await?;
        let open = open_of(&mut tx, agent).await?;
        let admitted = admit(task.entry.created_at, admission, &open)?;
        task.entry.created_at = admitted.accepted_at;
        insert(&mut tx, &task).await?;
        let n_interrupted = admitted.ended.len() + admitted.interrupted.len();
        let cancel =
            Cancel { at: task.entry.created_at, cause: CancelCause::Interrupt(task.id), may_stop: false };
        for waiting in open.into_iter().filter(|open| admitted.ended.contains(&open.id)) {
            end_waiting(&mut tx, waiting, cancel).await?;
        }
        for begun in admitted.interrupted {
            ask_to_cancel(&mut tx, begun, cancel).await?;
        }
        request_keys::remember(&mut tx, key, task.id.0, task.entry.created_at).await?;
        tx.commit().await?;
        Ok(TaskAccepted { task, n_before: admitted.n_before, n_interrupted })
    }

    /// The task that the same key created before.
    pub async fn task_of_key(&self, key: Option<&RequestKey>) -> Result<Option<TaskAccepted>, StoreError> {
        let mut read = self.read.begin().await?;
        by_key(&mut read, key).await
    }

    pub async fn task_by_id(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        let mut connection = self.read.acquire().await?;
        Ok(by_id(&mut connection, id).await?)
    }

    /// The task that the agent was created with.
    pub async fn task_spec_of(&self, agent: AgentId) -> Result<Option<Task>, StoreError> {
        let spec = sqlx::query_as(select_tasks!(
            "WHERE j.agent_id = $1 AND j.kind = 'task' AND d.origin = 'spec' ORDER BY j.created_at, j.id LIMIT 1"
        ));
        Ok(spec.bind(agent.0).fetch_optional(&self.read).await?)
    }

    /// Tasks that wait for live agents, the oldest first; tasks beside an agent wait for nothing.
    pub async fn tasks_queued(&self, limit: u32) -> Result<Vec<Task>, StoreError> {
        let tasks = sqlx::query_as(select_tasks!(
            "JOIN agents a ON a.id = j.agent_id WHERE a.deleted_at IS NULL AND j.ended_at IS NULL \
             AND j.state = 'queued' AND d.origin <> 'run' ORDER BY j.created_at, j.id LIMIT $1"
        ));
        Ok(tasks.bind(i64::from(limit)).fetch_all(&self.read).await?)
    }

    pub async fn tasks_latest_of(&self, agent: AgentId) -> Result<LatestTasks, StoreError> {
        let mut read = self.read.begin().await?;
        let open = sqlx::query_as(select_tasks!(concat!("WHERE j.id = (", next_open!("$1"), ")")));
        let open = open.bind(agent.0).fetch_optional(&mut *read).await?;
        let running = sqlx::query_as(select_tasks!(concat!("WHERE j.id = (", first_running!("$1"), ")")));
        let running = running.bind(agent.0).fetch_optional(&mut *read).await?;
        let last = sqlx::query_as(select_tasks!(concat!("WHERE j.id = (", last_ended!("$1"), ")")));
        let last = last.bind(agent.0).fetch_optional(&mut *read).await?;
        let report = unassigned_reports::of(&mut read, agent).await?;
        let version: Option<i64> =
            sqlx::query_scalar("SELECT max(sequence) FROM task_moves WHERE agent_id = $1")
                .bind(agent.0)
                .fetch_one(&mut *read)
                .await?;
        Ok(LatestTasks { open, running, last, report, version: version.unwrap_or(0) })
    }

    /// The same for every live agent with a task, in five queries regardless of their number.
    pub async fn tasks_latest(&self) -> Result<Vec<(AgentId, LatestTasks)>, StoreError> {
        let mut read = self.read.begin().await?;
        let open: Vec<Task> =
            sqlx::query_as(of_each_live_agent!(next_open!("a.id"))).fetch_all(&mut *read).await?;
        let running: Vec<Task> =
            sqlx::query_as(of_each_live_agent!(first_running!("a.id"))).fetch_all(&mut *read).await?;
        let last: Vec<Task> =
            sqlx::query_as(of_each_live_agent!(last_ended!("a.id"))).fetch_all(&mut *read).await?;
        let versions =
            sqlx::query("SELECT agent_id, max(sequence) AS version FROM task_moves GROUP BY agent_id");
        let mut latest: BTreeMap<AgentId, LatestTasks> = BTreeMap::new();
        for task in open {
            let tasks = latest.entry(task.entry.agent_id).or_default();
            tasks.open = Some(task);
        }
        for task in running {
            let tasks = latest.entry(task.entry.agent_id).or_default();
            tasks.running = Some(task);
        }
        for task in last {
            let tasks = latest.entry(task.entry.agent_id).or_default();
            tasks.last = Some(task);
        }
        for (agent, report) in unassigned_reports::of_live(&mut read).await? {
            latest.entry(agent).or_default().report = Some(report);
        }
        for row in versions.fetch_all(&mut *read).await? {
            if let Some(tasks) = latest.get_mut(&row.id("agent_id", AgentId)?) {
                tasks.version = row.try_get("version")?;
            }
        }
        Ok(latest.into_iter().collect())
    }
}

/// Inserts a task with its delivery and first state.
pub(super) async fn insert(connection: &mut DbConnection, task: &Task) -> Result<(), StoreError> {
    journal::insert(connection, &[task.history()]).await?;
    task_rows::insert(connection, task).await?;
    let first = TaskMove {
        task: task.id,
        state: TaskState::Queued,
        reason: "accepted".to_owned(),
        generation: task.entry.generation,
        at: task.entry.created_at,
    };
    Ok(note_move(connection, task.entry.agent_id, &first).await?)
}

pub(super) async fn by_id(connection: &mut DbConnection, id: TaskId) -> Result<Option<Task>, sqlx::Error> {
    sqlx::query_as(select_tasks!("WHERE j.id = $1")).bind(id.0).fetch_optional(connection).await
}

/// Open tasks, in their order of execution; those beside the agent come last.
pub(super) async fn open_of(connection: &mut DbConnection, agent: AgentId) -> Result<Vec<Task>, sqlx::Error> {
    sqlx::query_as(select_tasks!(
        "WHERE j.agent_id = $1 AND j.ended_at IS NULL ORDER BY CASE WHEN d.origin = 'run' THEN 2 \
         WHEN j.state = 'queued' THEN 1 ELSE 0 END, j.created_at, j.id"
    ))
    .bind(agent.0)
    .fetch_all(connection)
    .await
}

/// An agent may be deleted between the caller's read and the acceptance.
async fn require_live(connection: &mut DbConnection, agent: AgentId) -> Result<(), StoreError> {
    let live = sqlx::query("SELECT 1 FROM agents WHERE id = $1 AND deleted_at IS NULL").bind(agent.0);
    live.fetch_optional(connection).await?.map(drop).ok_or(StoreError::Missing("agent"))
}

async fn by_key(
    connection: &mut DbConnection,
    key: Option<&RequestKey>,
) -> Result<Option<TaskAccepted>, StoreError> {
    let Some(id) = request_keys::find(connection, key).await? else { return Ok(None) };
    let Some(task) = by_id(connection, TaskId(id)).await? else { return Ok(None) };
    let open = open_of(connection, task.entry.agent_id).await?;
    let is_interrupted =
        |open: &Task| open.work.cancel.is_some_and(|cancel| cancel.cause == CancelCause::Interrupt(task.id));
    let waits_for = |open: &&Task| {
        open.work.origin != TaskOrigin::Run && place(open) < place(&task) && !is_interrupted(open)
    };
    let n_before = open.iter().filter(waits_for).count();
    let n_interrupted: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM journal j JOIN task_deliveries d ON d.task_id = j.id \
         WHERE j.agent_id = $1 AND d.cancel_by = $2",
    )
    .bind(task.entry.agent_id.0)
    .bind(task.id.0)
    .fetch_one(connection)
    .await?;
    let n_interrupted = usize::try_from(n_interrupted).unwrap_or_default();
    Ok(Some(TaskAccepted { task, n_before, n_interrupted }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreOptions;
    use crate::store::db::query_plan;

    #[tokio::test]
    async fn open_and_ended_tasks_are_found_without_walking_the_history() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { path: dir.path().join("fleet.db"), backups: dir.path().join("backups") };
        let store = Store::open(&options).await.unwrap();
        let open = [
            "SEARCH journal USING INDEX journal_open (agent_id=?)",
            "SEARCH task_deliveries USING INDEX sqlite_autoindex_task_deliveries_1 (task_id=?)",
            "USE TEMP B-TREE FOR ORDER BY",
        ];
        assert_eq!(query_plan(&store.read, next_open!("$1")).await, open);
        let ended = ["SEARCH journal USING COVERING INDEX journal_ended_tasks (agent_id=? AND ended_at>?)"];
        assert_eq!(query_plan(&store.read, last_ended!("$1")).await, ended);
    }
}
