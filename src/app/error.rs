//! Errors of use cases: a code of the contract, a sentence, and the next action.

use serde_json::{Value, json};
use thiserror::Error as ThisError;

use super::health::TokenRefused;
use crate::coder::{CoderError, ErrorKind, Outcome};
use crate::domain::access::Denial;
use crate::domain::agent::AgentStatus;
use crate::domain::directory::HEADER;
use crate::domain::id::OperationId;
use crate::domain::metadata::{MOST_BYTES, MOST_KEYS};
use crate::domain::operation::{Failure, OperationState};
use crate::domain::token::Refusal;
use crate::engine::{self, EngineWord};
use crate::store::StoreError;

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("{message}")]
    Invalid { field: String, message: String },
    #[error("the server cannot use '{0}' as a directory")]
    NoDirectory(String),
    #[error("{0} is not a git repository: run 'git init' and make a first commit there")]
    NoRepository(String),
    #[error("agent '{0}' not found")]
    AgentNotFound(String),
    #[error("{what} '{name}' not found; there are: {known}")]
    CatalogNotFound { what: &'static str, name: String, known: String },
    #[error("token '{0}' not found")]
    TokenNotFound(String),
    #[error("rescue '{0}' not found")]
    RescueNotFound(String),
    #[error("'{asked}' matches several rescues: {found}")]
    SeveralRescues { asked: String, found: String },
    #[error("rescue '{id}' has nothing to restore: {outcome}")]
    NothingRescued { id: String, outcome: String },
    #[error("operation '{0}' not found")]
    OperationNotFound(String),
    #[error("operation '{id}' of agent '{agent}' has ended ({state}); there is nothing to cancel")]
    OperationEnded { id: OperationId, agent: String, state: OperationState },
    #[error("the delete of agent '{0}' cleans up after a canceled create and cannot be canceled")]
    CleanUp(String),
    #[error("run '{0}' not found")]
    RunNotFound(String),
    #[error("squad '{0}' not found")]
    SquadNotFound(String),
    #[error("member '{0}' not found in this squad")]
    MemberNotFound(String),
    #[error("agent '{0}' already exists")]
    AlreadyExists(String),
    #[error("agent '{0}' is busy")]
    Busy(String),
    #[error("the task queue of agent '{0}' is full")]
    QueueFull(String),
    #[error(
        "the metadata of agent '{0}' has reached its limit: {MOST_KEYS} keys, {MOST_BYTES} bytes in \
        total"
    )]
    MetadataFull(String),
    #[error("agent '{0}' has no task to cancel")]
    NoTask(String),
    #[error("agent '{name}' is not running ({status})")]
    NotReady { name: String, status: AgentStatus },
    #[error("agent '{0}' is being deleted")]
    BeingDeleted(String),
    #[error("agent '{name}' has no engine: {reason}")]
    EngineUnavailable { name: String, reason: String },
    #[error("project '{project}' names the engine '{word}', which does not exist")]
    EngineUnknown { project: String, word: String },
    #[error("project '{project}' names the engine '{word}', which is not installed on the server's machine")]
    EngineMissing { project: String, word: EngineWord },
    #[error("{0}")]
    Forbidden(Denial),
    /// The caller's token was valid at the start of the call and is not any more.
    #[error("{0}")]
    TokenRefused(Refusal),
    #[error("request_key was used before with other arguments")]
    KeyReused,
    #[error("Coder cannot be reached: {0}")]
    CoderUnavailable(String),
    #[error(transparent)]
    CoderTokenRefused(TokenRefused),
    #[error("Coder refused: {0}")]
    CoderRejected(String),
    #[error("Coder limits the rate of requests")]
    RateLimited,
    /// The recorded failure of an operation, returned to the caller that waited for it.
    #[error("{}", .0.message)]
    Operation(Failure),
    #[error("the disk that holds the data directory is full; nothing was changed")]
    DiskFull,
    #[error("the store failed")]
    Store(#[source] StoreError),
}

/// The error codes of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    InvalidInput,
    NotFound,
    AlreadyExists,
    AgentBusy,
    AgentNotReady,
    NoTask,
    CapacityExceeded,
    Forbidden,
    Unauthenticated,
    KeyReused,
    CoderUnavailable,
    CoderRejected,
    RateLimited,
    Timeout,
    EngineUnavailable,
    Internal,
}

impl Code {
    const ALL: [Self; 16] = [
        Self::InvalidInput,
        Self::NotFound,
        Self::AlreadyExists,
        Self::AgentBusy,
        Self::AgentNotReady,
        Self::NoTask,
        Self::CapacityExceeded,
        Self::Forbidden,
        Self::Unauthenticated,
        Self::KeyReused,
        Self::CoderUnavailable,
        Self::CoderRejected,
        Self::RateLimited,
        Self::Timeout,
        Self::EngineUnavailable,
        Self::Internal,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "INVALID_INPUT",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::AgentBusy => "AGENT_BUSY",
            Self::AgentNotReady => "AGENT_NOT_READY",
            Self::NoTask => "NO_TASK",
            Self::CapacityExceeded => "CAPACITY_EXCEEDED",
            Self::Forbidden => "FORBIDDEN",
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::KeyReused => "KEY_REUSED",
            Self::CoderUnavailable => "CODER_UNAVAILABLE",
            Self::CoderRejected => "CODER_REJECTED",
            Self::RateLimited => "RATE_LIMITED",
            Self::Timeout => "TIMEOUT",
            Self::EngineUnavailable => "ENGINE_UNAVAILABLE",
            Self::Internal => "INTERNAL",
        }
    }

    fn parse(word: &str) -> Self {
        Self::ALL.into_iter().find(|code| code.as_str() == word).unwrap_or(Self::Internal)
    }

    fn is_retryable(self) -> bool {
        match self {
            Self::CoderUnavailable
            | Self::RateLimited
            | Self::Timeout
            | Self::AgentBusy
            | Self::AgentNotReady
            | Self::CapacityExceeded
            | Self::Internal => true,
            Self::InvalidInput | Self::NotFound | Self::AlreadyExists => false,
            Self::Forbidden | Self::KeyReused | Self::CoderRejected | Self::NoTask => false,
            Self::EngineUnavailable | Self::Unauthenticated => false,
        }
    }
}

impl Error {
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.to_owned(), message: message.into() }
    }

    pub fn code(&self) -> Code {
        match self {
            Self::Invalid { .. } | Self::NoDirectory(_) | Self::NoRepository(_) => Code::InvalidInput,
            Self::SeveralRescues { .. } => Code::InvalidInput,
            Self::AgentNotFound(_) | Self::CatalogNotFound { .. } | Self::TokenNotFound(_) => Code::NotFound,
            Self::RescueNotFound(_) | Self::NothingRescued { .. } | Self::RunNotFound(_) => Code::NotFound,
            Self::SquadNotFound(_) | Self::MemberNotFound(_) | Self::OperationNotFound(_) => Code::NotFound,
            Self::AlreadyExists(_) => Code::AlreadyExists,
            Self::Busy(_) => Code::AgentBusy,
            Self::QueueFull(_) | Self::MetadataFull(_) => Code::CapacityExceeded,
            Self::NoTask(_) | Self::OperationEnded { .. } | Self::CleanUp(_) => Code::NoTask,
            Self::NotReady { .. } | Self::BeingDeleted(_) => Code::AgentNotReady,
            Self::EngineUnavailable { .. } | Self::EngineUnknown { .. } => Code::EngineUnavailable,
            Self::EngineMissing { .. } => Code::EngineUnavailable,
            Self::Forbidden(_) => Code::Forbidden,
            Self::TokenRefused(_) => Code::Unauthenticated,
            Self::KeyReused => Code::KeyReused,
            Self::CoderUnavailable(_) | Self::CoderTokenRefused(_) => Code::CoderUnavailable,
            Self::CoderRejected(_) => Code::CoderRejected,
            Self::RateLimited => Code::RateLimited,
            Self::Operation(failure) => Code::parse(&failure.code),
            Self::DiskFull | Self::Store(_) => Code::Internal,
        }
    }

    /// An agent that is being deleted never becomes ready again.
    pub fn is_retryable(&self) -> bool {
        self.code().is_retryable() && !matches!(self, Self::BeingDeleted(_))
    }

    /// The next action for the caller.
    pub fn next_action(&self) -> String {
        match self {
            Self::Invalid { field, .. } => format!("Correct '{field}' and call again."),
            Self::NoDirectory(_) => "Use a directory on the server's machine and call again.".into(),
            Self::NoRepository(_) => "Run 'git init' there, make a first commit and call again.".into(),
            Self::AgentNotFound(_) => "Call list_agents to see all agents.".into(),
            Self::CatalogNotFound { what, .. } => format!("Use one of the {what}s listed and call again."),
            Self::TokenNotFound(_) => "Run 'fleet-mcp token list' to see all tokens.".into(),
            Self::RescueNotFound(_) | Self::NothingRescued { .. } => {
                "Run 'fleet-mcp rescue list' to see the saved work.".into()
            }
            Self::SeveralRescues { .. } => "Give more characters of the id.".into(),
            Self::SquadNotFound(_) => "Call squad_status without squadId to see your squads.".into(),
            Self::MemberNotFound(_) => "Call squad_status with squadId only to see its members.".into(),
            Self::OperationNotFound(_) => "Call list_operations to see all operations.".into(),
            Self::OperationEnded { agent, .. } => {
                format!("Call show_agent for '{agent}' to see its current state.")
            }
            Self::CleanUp(name) => format!("Call wait_for_agents until '{name}' is deleted."),
            Self::RunNotFound(_) => "Use the id that was returned when the run was started.".into(),
            Self::AlreadyExists(_) => "Use another name, or omit the name to get a generated one.".into(),
            Self::Busy(name) => {
                format!(
                    "Call wait_for_agents until '{name}' is idle, or call start_agent_task with \
                    when_busy=queue."
                )
            }
            Self::QueueFull(name) => {
                format!("Call wait_for_agents until '{name}' has ended some of its tasks, then call again.")
            }
            Self::MetadataFull(name) => {
                format!(
                    "Call set_agent_metadata with an empty value for a key that '{name}' no longer needs."
                )
            }
            Self::NoTask(name) => format!("Call show_agent for '{name}' to see its last task."),
            Self::NotReady { name, .. } => {
                format!("Call start_agent for '{name}' and wait until it is idle.")
            }
            Self::BeingDeleted(_) => "Call create_agent to make another agent.".into(),
            Self::EngineUnavailable { .. } => {
                "Ask an operator to install an engine in the workspace, or to restart the server with \
                --engine demo."
                    .into()
            }
            Self::EngineUnknown { project, .. } => {
                format!("Set engine in the project file of '{project}' to one of: {}.", engine::word_list())
            }
            Self::EngineMissing { word, .. } => {
                format!("Install {word} on the server's machine, then call again.")
            }
            Self::Forbidden(_) => {
                "Ask an operator to do this, or to give you a token with this right.".into()
            }
            Self::TokenRefused(refusal) => refusal.next_action().into(),
            Self::KeyReused => "Use a new request_key for the new arguments.".into(),
            Self::CoderUnavailable(_) => {
                "Call fleet_status until it shows that Coder is reachable, then call again.".into()
            }
            Self::CoderTokenRefused(refused) => refused.remedy().into(),
            Self::CoderRejected(_) => "Correct the input that Coder refused, then call again.".into(),
            Self::RateLimited => "Wait a minute, then call again.".into(),
            Self::Operation(_) => {
                "Call show_agent to see the agent's state, correct the cause and call again.".into()
            }
            Self::DiskFull => "Free disk space, then call again.".into(),
            Self::Store(_) => "Run 'fleet-mcp doctor' on the server and follow what it says.".into(),
        }
    }

    /// The agent of the call, if the error names it.
    pub fn instance(&self) -> Option<String> {
        match self {
            Self::AgentNotFound(name) | Self::AlreadyExists(name) | Self::NotReady { name, .. } => {
                Some(name.clone())
            }
            Self::Busy(name) | Self::QueueFull(name) | Self::MetadataFull(name) | Self::NoTask(name) => {
                Some(name.clone())
            }
            Self::BeingDeleted(name) | Self::CleanUp(name) => Some(name.clone()),
            Self::OperationEnded { agent, .. } => Some(agent.clone()),
            Self::EngineUnavailable { name, .. } => Some(name.clone()),
            Self::Invalid { .. }
            | Self::NoDirectory(_)
            | Self::NoRepository(_)
            | Self::CatalogNotFound { .. }
            | Self::EngineUnknown { .. }
            | Self::EngineMissing { .. }
            | Self::TokenNotFound(_)
            | Self::RescueNotFound(_)
            | Self::SeveralRescues { .. }
            | Self::NothingRescued { .. }
            | Self::OperationNotFound(_)
            | Self::RunNotFound(_)
            | Self::SquadNotFound(_)
            | Self::MemberNotFound(_)
            | Self::Forbidden(_)
            | Self::TokenRefused(_) => None,
            Self::KeyReused | Self::CoderUnavailable(_) | Self::CoderTokenRefused(_) => None,
            Self::CoderRejected(_) => None,
            Self::RateLimited | Self::Operation(_) => None,
            Self::DiskFull | Self::Store(_) => None,
        }
    }

    pub fn details(&self) -> Value {
        match self {
            Self::Invalid { field, .. } => json!({ "field": field }),
            Self::NoDirectory(_) => json!({ "field": HEADER }),
            Self::NoRepository(_) => json!({ "field": "project" }),
            _ => json!({}),
        }
    }
}

/// A reused key is the caller's error and a full disk the operator's; all other store errors are internal.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::KeyReused => Self::KeyReused,
            StoreError::Full => Self::DiskFull,
            other => Self::Store(other),
        }
    }
}

impl From<CoderError> for Error {
    fn from(error: CoderError) -> Self {
        if let Some(refused) = TokenRefused::of(&error) {
            return Self::CoderTokenRefused(refused);
        }
        match (error.kind(), error.outcome()) {
            (ErrorKind::RateLimited { .. }, _) => Self::RateLimited,
            (_, Outcome::Refused) => Self::CoderRejected(error.to_string()),
            (_, Outcome::NotSent | Outcome::Unclear) => Self::CoderUnavailable(error.to_string()),
        }
    }
}
