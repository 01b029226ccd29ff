//! What can go wrong between us and a command in a workspace.

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
    #[error("the workspace does not know the run, or no longer")]
    Unknown,
    #[error("the run's supervisor died before it could tell how the command ended")]
    Lost,
    #[error("the run is still going on")]
    Running,
}

impl ExecError {
    /// Whether the same question may be answered the next time. What a run did meanwhile is not lost.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Cut { .. } => true,
            Self::Coder(error) => is_passing(error.kind()),
            Self::Command { .. }
            | Self::Terminal { .. }
            | Self::Refused { .. }
            | Self::Unknown
            | Self::Lost
            | Self::Running => false,
        }
    }

    pub(super) fn cut(reason: impl ToString) -> Self {
        Self::Cut { reason: reason.to_string() }
    }
}

fn is_passing(kind: ErrorKind) -> bool {
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
