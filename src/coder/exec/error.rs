//! Errors of calls into a workspace.

use crate::coder::{CoderError, ErrorKind};

/// A failed call into a workspace. No variant ever holds input or variables of a command.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("the command cannot be run: {reason}")]
    Command { reason: String },
    #[error(transparent)]
    Coder(#[from] CoderError),
    #[error("the connection to the workspace broke: {reason}")]
    Cut { reason: String },
    #[error("the workspace has no usable terminal: {reason}")]
    Terminal { reason: String },
    #[error("the workspace cannot start the command: {reason}")]
    Refused { reason: String },
    #[error("the workspace has no record of the run")]
    Unknown,
    #[error("the run's supervisor died before it recorded the end of the command")]
    Lost,
    #[error("the run has not ended")]
    Running,
}

impl ExecError {
    /// Whether a retry may succeed. The run itself continues meanwhile and its output is kept.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Cut { .. } => true,
            Self::Coder(error) => is_transient(error.kind()),
            Self::Command { .. }
            | Self::Terminal { .. }
            | Self::Refused { .. }
            | Self::Unknown
            | Self::Lost
            | Self::Running => false,
        }
    }

    pub(super) fn cut(reason: impl Into<String>) -> Self {
        Self::Cut { reason: reason.into() }
    }
}

fn is_transient(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::Unreachable
        | ErrorKind::RateLimited { .. }
        | ErrorKind::Server
        | ErrorKind::Timeout
        | ErrorKind::Cut
        | ErrorKind::Undecodable
        | ErrorKind::Unexpected => true,
        ErrorKind::Setup
        | ErrorKind::Unauthorized
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::Gone
        | ErrorKind::Conflict
        | ErrorKind::Invalid => false,
    }
}
