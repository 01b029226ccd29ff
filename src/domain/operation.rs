//! Operations: durable intents that are carried out step by step and always reach an end.

use std::fmt;

use chrono::{DateTime, Utc};

use super::id::{AgentId, OperationId};
use super::word_enum::word_enum;

/// An intent and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub id: OperationId,
    pub subject: Subject,
    pub kind: OperationKind,
    pub progress: Progress,
    /// None while it is open.
    pub end: Option<OperationEnd>,
    /// Name of the requesting principal.
    pub principal: String,
    /// A request to end it without its result.
    pub cancel: Option<CancelRequest>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// The target of an operation. Each belongs to one agent, whose operations run one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Agent(AgentId),
}

word_enum! {
    OperationKind {
        Create = "create",
        Delete = "delete",
        Start = "start",
        Stop = "stop",
        Restart = "restart",
    }
}

word_enum! {
    /// Pending: accepted, not begun. Canceled: superseded by a delete, or ended on request.
    OperationState {
        Pending = "pending",
        Running = "running",
        Done = "done",
        Failed = "failed",
        Canceled = "canceled",
    }
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationEnd {
    Done,
    Failed(Failure),
    /// With a note about what it left behind; none if it was overtaken by a delete.
    Canceled(Option<String>),
}

/// What was recorded before and after the outside effect, so that a restart knows what to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// No outside effect was tried.
    Accepted,
    /// A request was about to be sent; whether Coder acted on it must be looked up.
    Sending {
        sent_at: DateTime<Utc>,
        /// The workspace's newest build at that time; 0 if there was no workspace.
        base_build: i64,
    },
    /// Coder acted: this build is ours and must be followed to its end.
    Following {
        build: i64,
        /// When that build's end was first seen, for a restart that waits for the next build.
        ended_at: Option<DateTime<Utc>>,
    },
}

/// Who requested the end of an operation, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelRequest {
    pub by: String,
    pub at: DateTime<Utc>,
}

/// Why an operation failed, in the words of the caller's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

impl OperationEnd {
    pub fn state(&self) -> OperationState {
        match self {
            Self::Done => OperationState::Done,
            Self::Failed(_) => OperationState::Failed,
            Self::Canceled(_) => OperationState::Canceled,
        }
    }

    /// Why it failed, or what it left behind when it was canceled.
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Failed(failure) => Some(&failure.message),
            Self::Canceled(left) => left.as_deref(),
        }
    }
}

impl Progress {
    /// The state of an open operation.
    pub fn state(self) -> OperationState {
        match self {
            Self::Accepted => OperationState::Pending,
            Self::Sending { .. } | Self::Following { .. } => OperationState::Running,
        }
    }
}

impl Subject {
    /// The agent itself, or the agent that the subject belongs to.
    pub fn agent_id(self) -> AgentId {
        match self {
            Self::Agent(id) => id,
        }
    }
}

impl From<AgentId> for Subject {
    fn from(id: AgentId) -> Self {
        Self::Agent(id)
    }
}

impl Operation {
    pub fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    pub fn state(&self) -> OperationState {
        self.end.as_ref().map_or_else(|| self.progress.state(), OperationEnd::state)
    }

    /// Why it failed, or what it left behind when it was canceled.
    pub fn note(&self) -> Option<&str> {
        self.end.as_ref().and_then(OperationEnd::note)
    }

    /// The agent in whose queue it waits.
    pub fn agent_id(&self) -> AgentId {
        self.subject.agent_id()
    }

    pub fn accepted(
        subject: impl Into<Subject>,
        kind: OperationKind,
        principal: &str,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            id: OperationId::fresh(),
            subject: subject.into(),
            kind,
            progress: Progress::Accepted,
            end: None,
            principal: principal.to_owned(),
            cancel: None,
            created_at: now,
            updated_at: now,
        }
    }
}
