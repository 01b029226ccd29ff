//! Reports as lines of the journal, each with the task it belongs to.

use chrono::{DateTime, Utc};

use crate::coder::wire::AppStatus;
use crate::domain::history::{HistoryEntry, HistoryKind};
use crate::domain::id::{AgentId, TaskId};
use crate::domain::task::TaskSource;
use crate::store::LatestTasks;

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
    pub(super) task: Option<(TaskId, DateTime<Utc>)>,
}

impl Context {
    pub(super) fn of(tasks: &LatestTasks, generation: i64) -> Self {
        let newest =
            tasks.open.as_ref().filter(|task| task.work.working_since.is_some()).or(tasks.last.as_ref());
        let task = newest.map(|task| (task.id, task.work.working_since.unwrap_or(task.entry.created_at)));
        Self { generation, task }
    }
}
