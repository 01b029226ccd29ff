//! What callers do with tasks: give one, cancel it, and, as an agent, report on one's own.

mod cancel;
mod exec;
mod report;
mod start;
mod verify;

use std::fmt;

use chrono::TimeDelta;
pub(in crate::app) use exec::RunSeen;
pub(in crate::app) use verify::Evidence;

use super::agents::RequestToken;
use crate::domain::agent::AgentStatus;
use crate::domain::name::AgentName;
use crate::domain::task::{ClaimKind, Escalation, Task, WhenBusy};
use crate::domain::word_enum::word_enum;
use crate::domain::words::AppState;

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
    pub reached: Escalation,
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

word_enum! {
    ReportedState {
        Working = "working",
        Idle = "idle",
        Complete = "complete",
        Failure = "failure",
    }
}

#[derive(Debug, Clone)]
pub struct StatusReported {
    pub name: AgentName,
    pub task: Option<Task>,
    pub status: AgentStatus,
    pub message: String,
}

impl ReportedState {
    /// The same word of an app.
    fn app_state(self) -> AppState {
        match self {
            Self::Working => AppState::Working,
            Self::Idle => AppState::Idle,
            Self::Complete => AppState::Complete,
            Self::Failure => AppState::Failure,
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
