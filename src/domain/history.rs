//! The journal of an agent: one entry a task, one entry a report, kept across builds and deletion.

use std::fmt;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::id::{AgentId, TaskId};
use super::task::{TaskSource, TaskState};
use super::word_enum::word_enum;

/// One line of an agent's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// A task's id, or Coder's id of the app status: an entry is recorded once.
    pub id: Uuid,
    pub agent_id: AgentId,
    pub kind: HistoryKind,
    pub message: String,
    /// A task's state, or the word of a report.
    pub state: String,
    pub outcome: Option<String>,
    pub source: TaskSource,
    /// The task a report belongs to; a task's own id.
    pub task_id: Option<TaskId>,
    pub uri: Option<String>,
    pub needs_user_attention: bool,
    pub generation: i64,
    pub created_at: DateTime<Utc>,
}

word_enum! {
    HistoryKind {
        Task = "task",
        Report = "report",
    }
}

/// A new task as it enters the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    pub id: TaskId,
    pub agent_id: AgentId,
    pub message: String,
    pub source: TaskSource,
    pub generation: i64,
    pub created_at: DateTime<Utc>,
}

impl HistoryEntry {
    pub fn task(task: NewTask) -> Self {
        Self {
            id: task.id.0,
            agent_id: task.agent_id,
            kind: HistoryKind::Task,
            message: task.message,
            state: TaskState::Queued.word().to_owned(),
            outcome: None,
            source: task.source,
            task_id: Some(task.id),
            uri: None,
            needs_user_attention: false,
            generation: task.generation,
            created_at: task.created_at,
        }
    }

    /// The state of a task entry; none for a report.
    pub fn task_state(&self) -> Option<TaskState> {
        match self.kind {
            HistoryKind::Task => TaskState::parse(&self.state),
            HistoryKind::Report => None,
        }
    }
}
