//! The history of an agent: one entry per task and per report, kept across builds and deletion.

use std::fmt;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::id::{AgentId, TaskId};
use super::task::TaskSource;
use super::task_stage::TaskProgress;
use super::word_enum::word_enum;
use super::words::AppState;

/// One entry of an agent's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryEntry {
    Task(TaskEntry),
    Report(Report),
}

/// The part that all entries have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLine {
    pub agent_id: AgentId,
    pub message: String,
    pub source: TaskSource,
    pub generation: i64,
    pub created_at: DateTime<Utc>,
}

/// A task in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskEntry {
    pub id: TaskId,
    pub line: HistoryLine,
    pub progress: TaskProgress,
}

/// A report of an agent about itself, or a report about its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Coder's id of the app status, so that it is recorded only once.
    pub id: Uuid,
    pub line: HistoryLine,
    /// The app's state, which may be unknown.
    pub state: AppState,
    /// The task of the report.
    pub task_id: Option<TaskId>,
    pub uri: Option<String>,
    pub needs_answer: bool,
}

word_enum! {
    HistoryKind {
        Task = "task",
        Report = "report",
    }
}

word_enum! {
    /// The entries that a caller requests.
    HistoryFilter {
        All = "all",
        Task = "task",
        Report = "report",
    }
}

impl HistoryFilter {
    /// The requested kind; none for all.
    pub fn kind(self) -> Option<HistoryKind> {
        match self {
            Self::All => None,
            Self::Task => Some(HistoryKind::Task),
            Self::Report => Some(HistoryKind::Report),
        }
    }
}

impl HistoryEntry {
    pub fn id(&self) -> Uuid {
        match self {
            Self::Task(task) => task.id.0,
            Self::Report(report) => report.id,
        }
    }

    pub fn kind(&self) -> HistoryKind {
        match self {
            Self::Task(_) => HistoryKind::Task,
            Self::Report(_) => HistoryKind::Report,
        }
    }

    pub fn line(&self) -> &HistoryLine {
        match self {
            Self::Task(task) => &task.line,
            Self::Report(report) => &report.line,
        }
    }

    /// The keyword of its state.
    pub fn state(&self) -> &str {
        match self {
            Self::Task(task) => task.progress.state().word(),
            Self::Report(report) => report.state.word(),
        }
    }

    pub fn outcome(&self) -> Option<&str> {
        match self {
            Self::Task(task) => task.progress.end().and_then(|end| end.outcome.as_deref()),
            Self::Report(_) => None,
        }
    }

    /// The task of a report, or the id of a task.
    pub fn task_id(&self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(task.id),
            Self::Report(report) => report.task_id,
        }
    }

    pub fn uri(&self) -> Option<&str> {
        match self {
            Self::Task(_) => None,
            Self::Report(report) => report.uri.as_deref(),
        }
    }

    pub fn needs_answer(&self) -> bool {
        match self {
            Self::Task(task) => task.progress.end().is_some_and(|end| end.needs_answer),
            Self::Report(report) => report.needs_answer,
        }
    }

    /// Only tasks can be open.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Task(task) => task.progress.end().is_none(),
            Self::Report(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_asked_for_by_its_word_and_all_of_them_by_another() {
        let asked: Vec<_> = HistoryFilter::ALL.iter().map(|asked| (asked.word(), asked.kind())).collect();
        let mut expected = vec![("all", None)];
        expected.extend(HistoryKind::ALL.iter().map(|kind| (kind.word(), Some(*kind))));
        assert_eq!(asked, expected);
    }
}
