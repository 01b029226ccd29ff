//! Errors of calls to Coder, and what each tells about the call's effect.

use chrono::{DateTime, Utc};

use super::answer::Answer;
use super::credential::TokenOrigin;

/// A failed call. No variant ever holds a token.
#[derive(Debug, thiserror::Error)]
pub enum CoderError {
    #[error("set up the Coder client: {reason}")]
    Setup { reason: String },
    #[error("{operation}: cannot build the request: {reason}")]
    Request { operation: &'static str, reason: String },
    #[error("{operation}: Coder is not reachable")]
    Unreachable {
        operation: &'static str,
        #[source]
        source: reqwest::Error,
    },
    #[error("{operation}: Coder did not respond in time")]
    Timeout { operation: &'static str },
    #[error("{operation}: the connection to Coder broke: {reason}")]
    Cut { operation: &'static str, reason: String },
    #[error("{0}")]
    Answered(Box<Answer>),
    #[error("{operation}: Coder's response (status {status}) cannot be parsed: {reason}")]
    Undecodable { operation: &'static str, status: u16, reason: String, body: String },
    #[error("{operation}: Coder's response is larger than {limit} bytes")]
    TooLarge { operation: &'static str, limit: usize },
}

/// The possible effect of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The request was never sent: no effect.
    NotSent,
    /// Coder refused the request: no effect.
    Refused,
    /// It may or may not have taken effect: read the state before a retry.
    Unclear,
}

/// The reason of a failed call, for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Our own address, token or request is unusable.
    Setup,
    Unreachable,
    Unauthorized,
    Forbidden,
    NotFound,
    /// Deleted; still readable when a query includes deleted ones.
    Gone,
    Conflict,
    Invalid,
    RateLimited {
        retry_at: Option<DateTime<Utc>>,
    },
    Server,
    Timeout,
    Cut,
    Undecodable,
    /// A status that Coder's API does not explain, such as a redirect or a proxy's own error.
    Unexpected,
}

impl CoderError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Setup { .. } | Self::Request { .. } => ErrorKind::Setup,
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Cut { .. } => ErrorKind::Cut,
            Self::Answered(answer) => answer.kind(),
            Self::Undecodable { .. } | Self::TooLarge { .. } => ErrorKind::Undecodable,
        }
    }

    pub fn outcome(&self) -> Outcome {
        match self.kind() {
            ErrorKind::Setup | ErrorKind::Unreachable => Outcome::NotSent,
            ErrorKind::Unauthorized
            | ErrorKind::Forbidden
            | ErrorKind::NotFound
            | ErrorKind::Gone
            | ErrorKind::Conflict
            | ErrorKind::Invalid
            | ErrorKind::RateLimited { .. }
            | ErrorKind::Unexpected => Outcome::Refused,
            ErrorKind::Server | ErrorKind::Timeout | ErrorKind::Cut | ErrorKind::Undecodable => {
                Outcome::Unclear
            }
        }
    }

    /// Coder's response, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answered(answer) => Some(answer),
            Self::Setup { .. }
            | Self::Request { .. }
            | Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Cut { .. }
            | Self::Undecodable { .. }
            | Self::TooLarge { .. } => None,
        }
    }

    /// Records whose token the failed call carried.
    pub(super) fn with_token_origin(mut self, token: Option<TokenOrigin>) -> Self {
        if let Self::Answered(answer) = &mut self {
            answer.token_origin = token;
        }
        self
    }

    pub(super) fn request(operation: &'static str, reason: String) -> Self {
        Self::Request { operation, reason }
    }

    /// A failure below HTTP. The URL is dropped, since its query may hold a command line.
    pub(super) fn transport(operation: &'static str, error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_builder() {
            return Self::request(operation, error.to_string());
        }
        if error.is_connect() {
            return Self::Unreachable { operation, source: error };
        }
        if error.is_timeout() {
            return Self::Timeout { operation };
        }
        Self::Cut { operation, reason: chain(&error) }
    }
}

/// An error with its causes on one line: reqwest's own message alone says too little.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}
