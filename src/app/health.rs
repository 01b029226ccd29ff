//! The health of the connection to Coder, for readers and for waits until Coder responds.

use chrono::{DateTime, Utc};
use tokio::sync::watch;

use super::error::Error;
use crate::coder::{CoderError, ErrorKind, TokenOrigin};

/// Coder refuses the server's token: only another token helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Coder refused the server's token ({status})")]
pub struct TokenRefused {
    status: u16,
    origin: TokenOrigin,
}

impl TokenRefused {
    /// The refusal of a token that Coder accepts for no call.
    pub(super) fn of(error: &CoderError) -> Option<Self> {
        let refused = Self::of_answer(error)?;
        (error.kind() == ErrorKind::Unauthorized).then_some(refused)
    }

    /// The refusal at the list of workspaces: a token that cannot read that list is unusable too.
    pub(super) fn of_list(error: &CoderError) -> Option<Self> {
        let refused = Self::of_answer(error)?;
        matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Forbidden).then_some(refused)
    }

    fn of_answer(error: &CoderError) -> Option<Self> {
        let answer = error.answer()?;
        Some(Self { status: answer.status.as_u16(), origin: answer.token_origin? })
    }

    /// Names the setting that the token came from.
    pub(super) fn remedy(self) -> &'static str {
        match self.origin {
            TokenOrigin::Environment => {
                "Set CODER_SESSION_TOKEN to a token that Coder accepts and restart the server."
            }
            TokenOrigin::File => {
                "Write a token that Coder accepts into the file that coder.token_file names."
            }
            TokenOrigin::Embedded => "Restart the server.",
        }
    }

    fn with_remedy(self) -> String {
        format!("{self}. {}", self.remedy())
    }
}

/// The last known state of the connection to Coder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoderHealth {
    pub version: Option<String>,
    pub last_ok_at: Option<DateTime<Utc>>,
    pub error: Option<String>,
    pub refused: Option<TokenRefused>,
}

impl CoderHealth {
    pub fn is_reachable(&self) -> bool {
        self.error.is_none() && self.last_ok_at.is_some()
    }

    /// The error of a call that needs Coder; `unasked` is the reason before the first poll.
    pub(super) fn unavailable(&self, unasked: &str) -> Error {
        match (self.refused, &self.error) {
            (Some(refused), _) => Error::CoderTokenRefused(refused),
            (None, Some(error)) => Error::CoderUnavailable(error.clone()),
            (None, None) => Error::CoderUnavailable(unasked.to_owned()),
        }
    }

    /// The reason for which accepted changes wait, if any.
    pub(super) fn awaited(&self) -> Option<String> {
        self.error.as_ref().map(|error| format!("waits for Coder: {error}"))
    }
}

#[derive(Debug)]
pub struct Health(watch::Sender<CoderHealth>);

impl Default for Health {
    fn default() -> Self {
        Self(watch::Sender::new(CoderHealth::default()))
    }
}

impl Health {
    pub fn now(&self) -> CoderHealth {
        self.0.borrow().clone()
    }

    /// Returns once Coder responds or fails with another error; at once if that is so already.
    pub(super) async fn changed_from(&self, error: Option<&String>) {
        let mut changes = self.0.subscribe();
        let has_changed = |health: &CoderHealth| health.is_reachable() || health.error.as_ref() != error;
        // The sender lives as long as `self`, so that the channel cannot close during the wait.
        let _seen = changes.wait_for(has_changed).await;
    }

    /// Returns once Coder was polled, with any result.
    pub async fn asked(&self) {
        let mut changes = self.0.subscribe();
        let _seen = changes.wait_for(|health| health.last_ok_at.is_some() || health.error.is_some()).await;
    }

    pub(super) fn set_version(&self, version: String) {
        self.0.send_modify(|health| health.version = Some(version));
    }

    pub(super) fn set_ok(&self, at: DateTime<Utc>) {
        let was_down = self.0.borrow().error.is_some();
        self.0.send_modify(|health| {
            health.last_ok_at = Some(at);
            health.error = None;
            health.refused = None;
        });
        if was_down {
            tracing::info!("Coder is reachable again");
        }
    }

    /// Logs a new error once; a repeated one is not logged.
    pub(super) fn set_error(&self, error: &CoderError) {
        let refused = TokenRefused::of_list(error);
        let error = refused.map_or_else(|| error.to_string(), TokenRefused::with_remedy);
        let is_news = self.0.borrow().error.as_ref() != Some(&error);
        if is_news && refused.is_some() {
            tracing::error!("{error} All work is paused until then.");
        } else if is_news {
            tracing::warn!(error, "Coder cannot be reached; reads serve the last state, changes wait");
        }
        self.0.send_modify(|health| {
            health.error = Some(error);
            health.refused = refused;
        });
    }
}
