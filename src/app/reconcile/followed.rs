//! What reports say about our open task: taken up, done, failed.

use chrono::Utc;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::coder::wire::{AppStatus, Workspace};
use crate::domain::history::{HistoryEntry, HistoryKind};
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::{TaskSource, TaskState};
use crate::domain::words::AppState;
use crate::store::LatestTasks;

use super::observe::{agents_of, statuses_of};

/// A report as a line of the journal.
pub(super) fn entry_of(agent: AgentId, status: &AppStatus, context: &Context) -> HistoryEntry {
    HistoryEntry {
        id: status.id,
        agent_id: agent,
        kind: HistoryKind::Report,
        message: status.message.clone(),
        state: status.state.clone(),
        outcome: None,
        source: TaskSource::Agent,
        task_id: context.task.filter(|(_, since)| status.created_at >= *since).map(|(id, _)| id),
        uri: Some(status.uri.clone()).filter(|uri| !uri.is_empty()),
        needs_user_attention: status.needs_user_attention,
        generation: context.generation,
        created_at: status.created_at,
    }
}

/// What a report of this moment belongs to.
pub(super) struct Context {
    pub(super) generation: i64,
    pub(super) task: Option<(TaskId, chrono::DateTime<Utc>)>,
}

impl Context {
    pub(super) fn of(tasks: &LatestTasks, generation: i64) -> Self {
        let task = tasks.open.as_ref().and_then(|task| Some((task.task_id?, task.created_at)));
        Self { generation, task }
    }
}

impl Fleet {
    /// Moves the open task along with the newest report of this build; returns the tasks as they are then.
    pub(super) async fn task_follow(
        &self,
        agent: AgentId,
        tasks: &LatestTasks,
        workspace: &Workspace,
    ) -> Result<Option<LatestTasks>, Error> {
        let Some(task) = &tasks.open else { return Ok(None) };
        let (Some(id), Some(state)) = (task.task_id, task.task_state()) else { return Ok(None) };
        let is_current = |status: &&AppStatus| agents_of(workspace).any(|agent| agent.id == status.agent_id);
        let Some(newest) = workspace.latest_app_status.as_ref().filter(is_current) else { return Ok(None) };
        let Some(next) = next_state(state, task, newest, workspace) else { return Ok(None) };
        let outcome = next.is_ended().then_some(newest.message.as_str());
        let moved = self.store().task_move(id, next, outcome, Utc::now()).await?;
        if moved { Ok(Some(self.store().tasks_latest_of(agent).await?)) } else { Ok(None) }
    }
}

/// A report older than the task says nothing of it; idle ends a task only after it was seen working.
fn next_state(
    state: TaskState,
    task: &HistoryEntry,
    newest: &AppStatus,
    workspace: &Workspace,
) -> Option<TaskState> {
    if newest.created_at < task.created_at {
        return None;
    }
    let was_working =
        state == TaskState::Working || statuses_of(workspace).any(|s| s.state == AppState::Working.word());
    let next = match AppState::from_word(&newest.state) {
        AppState::Working => TaskState::Working,
        AppState::Complete => TaskState::Done,
        AppState::Failure => TaskState::Failed,
        AppState::Idle if was_working => TaskState::Done,
        AppState::Idle | AppState::Unknown(_) => return None,
    };
    state.may_become(next).then_some(next)
}
