//! Decides how long an unreachable workspace is retried.

use tokio::time::{Instant, sleep};

use super::{ExecError, ExecLimits};

/// Failures since the last success.
#[derive(Debug)]
pub(super) struct Outage {
    since: Option<Instant>,
    n_pauses: u32,
    limits: ExecLimits,
}

impl Outage {
    pub(super) fn none(limits: ExecLimits) -> Self {
        Self { since: None, n_pauses: 0, limits }
    }

    /// Waits until the next retry is due, or returns the error if a retry is useless.
    pub(super) async fn wait_after(&mut self, error: ExecError) -> Result<(), ExecError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.is_transient() || since.elapsed() > self.limits.outage {
            return Err(error);
        }
        tracing::debug!(%error, "a workspace is unreachable; retrying");
        sleep(self.limits.retry.pause(self.n_pauses)).await;
        self.n_pauses += 1;
        Ok(())
    }
}
