//! Waits: until a condition holds, a deadline passes or the server stops.

use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Fleet;

/// Between two reports of progress: often enough to show it, rarely enough not to flood logs.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(3);

/// The end of a wait: a deadline, if it has one, and the shutdown of the server.
///
/// A wait is a loop: subscribe; check the condition; return unless `goes_on` with the next change.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    deadline: Option<Instant>,
    stopping: &'a CancellationToken,
}

impl Fleet {
    pub(super) fn wait(&self, limit: impl Into<Option<Duration>>) -> Wait<'_> {
        let deadline = limit.into().and_then(|limit| Instant::now().checked_add(limit));
        Wait { deadline, stopping: &self.0.stopping }
    }
}

impl Wait<'_> {
    /// Awaits the change; false if the wait ends first.
    pub(super) async fn goes_on(&self, change: impl Future) -> bool {
        tokio::select! {
            _ = change => true,
            () = self.late() => false,
            () = self.stopping.cancelled() => false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.stopping.is_cancelled() || self.left().is_some_and(|left| left.is_zero())
    }

    /// The time left, at most `longest`.
    pub(super) fn at_most(&self, longest: Duration) -> Duration {
        self.left().map_or(longest, |left| left.min(longest))
    }

    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    async fn late(&self) {
        match self.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

/// The first of two changes.
pub(super) async fn either(one: impl Future, other: impl Future) {
    match select(std::pin::pin!(one), std::pin::pin!(other)).await {
        Either::Left(_) | Either::Right(_) => {}
    }
}
