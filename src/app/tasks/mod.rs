//! What callers do with tasks: give one, cancel it, and, as an agent, report on one's own.

mod cancel;
mod errand;
mod exec;
mod report;
mod spent;
mod start;
mod verify;

use chrono::TimeDelta;
pub(in crate::app) use errand::{Errand, Readiness};
pub(in crate::app) use exec::RunSeen;
pub(in crate::app) use verify::Evidence;

use super::agents::RequestToken;
use crate::domain::agent::AgentStatus;
use crate::domain::name::AgentName;
use crate::domain::task::{ClaimKind, Reached, Task, WhenBusy};

#[derive(Debug, Clone)]
pub struct StartTask {
    pub name: String,
    pub description: String,
    pub when_busy: WhenBusy,
    pub timeout: Option<TimeDelta>,
    pub request: Option<RequestToken>,
}

#[derive(Debug, Clone)]
pub struct TaskStarted {
    pub name: AgentName,
    pub task: Task,
    pub status: AgentStatus,
    pub message: String,
    /// Taken after the task was accepted, so that a wait from it sees what becomes of the task.
    pub cursor: i64,
}

#[derive(Debug, Clone)]
pub struct CancelTask {
    pub name: String,
    /// Also those that wait.
    pub all: bool,
    /// Stop the workspace if nothing else helps.
    pub escalate: bool,
}

#[derive(Debug, Clone)]
pub struct TaskCanceled {
    pub name: AgentName,
    /// None when the agent did something that was no task of ours.
    pub task: Option<Task>,
    pub status: AgentStatus,
    pub reached: Reached,
    pub message: String,
}

/// What an agent says of itself.
#[derive(Debug, Clone)]
pub struct ReportStatus {
    pub state: ReportedState,
    pub summary: String,
    pub question: Option<String>,
    pub uri: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedState {
    Working,
    Idle,
    Complete,
    Failure,
}

#[derive(Debug, Clone)]
pub struct Reported {
    pub name: AgentName,
    pub task: Option<Task>,
    pub status: AgentStatus,
    pub message: String,
}

impl ReportedState {
    pub const ALL: [Self; 4] = [Self::Working, Self::Idle, Self::Complete, Self::Failure];

    pub fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Idle => "idle",
            Self::Complete => "complete",
            Self::Failure => "failure",
        }
    }

    /// What it means for the task in hand; a question ends it, since only an answer leads on.
    fn claim(self, question: Option<&str>) -> Option<ClaimKind> {
        match (self, question) {
            (Self::Failure, _) => Some(ClaimKind::Failure),
            (Self::Working | Self::Idle | Self::Complete, Some(_)) => Some(ClaimKind::Question),
            (Self::Complete, None) => Some(ClaimKind::Complete),
            (Self::Working | Self::Idle, None) => None,
        }
    }
}
