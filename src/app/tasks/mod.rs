//! Use cases of tasks: start one, cancel it, and report on the own task as an agent.

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
    /// Read after the task was accepted, so that a wait from this cursor sees all changes of the task.
    pub cursor: i64,
}

#[derive(Debug, Clone)]
pub struct CancelTask {
    pub name: String,
    /// Also cancel queued tasks.
    pub all: bool,
    /// Stop the workspace if the agent does not react.
    pub escalate: bool,
}

#[derive(Debug, Clone)]
pub struct TaskCanceled {
    pub name: AgentName,
    /// None if the agent's work was no task of the fleet.
    pub task: Option<Task>,
    pub status: AgentStatus,
    pub reached: Escalation,
    pub message: String,
}

/// An agent's report about itself.
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
    /// The corresponding app state.
    fn app_state(self) -> AppState {
        match self {
            Self::Working => AppState::Working,
            Self::Idle => AppState::Idle,
            Self::Complete => AppState::Complete,
            Self::Failure => AppState::Failure,
        }
    }

    /// The effect on the open task; a question ends it, since only an answer can continue the work.
    fn claim(self, question: Option<&str>) -> Option<ClaimKind> {
        match (self, question) {
            (Self::Failure, _) => Some(ClaimKind::Failure),
            (Self::Working | Self::Idle | Self::Complete, Some(_)) => Some(ClaimKind::Question),
            (Self::Complete, None) => Some(ClaimKind::Complete),
            (Self::Working | Self::Idle, None) => None,
        }
    }
}
