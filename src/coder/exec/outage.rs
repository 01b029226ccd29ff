//! Decides how long an unreachable workspace is retried.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{ExecError, ExecLimits};

/// Failures since the last success.
#[derive(Debug)]
pub(super) struct Outage {
    since: Option<Instant>,
    pause: Duration,
    limits: ExecLimits,
}

impl Outage {
    pub(super) fn none(limits: ExecLimits) -> Self {
        Self { since: None, pause: limits.retry, limits }
    }

    /// Waits until the next retry is due, or returns the error if a retry is useless.
    pub(super) async fn wait_after(&mut self, error: ExecError) -> Result<(), ExecError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.is_transient() || since.elapsed() > self.limits.outage {
            return Err(error);
        }
        tracing::debug!(%error, "a workspace is unreachable; retrying");
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(self.limits.retry_longest);
        Ok(())
    }
}
