//! Decides how long an unreachable workspace is retried.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ExecError;

/// After this time the caller gets an error; the workspace's processes continue.
const LIMIT: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Failures since the last success.
#[derive(Debug)]
pub(super) struct Outage {
    since: Option<Instant>,
    pause: Duration,
}

impl Outage {
    pub(super) fn none() -> Self {
        Self { since: None, pause: FIRST_PAUSE }
    }

    /// Waits until the next retry is due, or returns the error if a retry is useless.
    pub(super) async fn wait_after(&mut self, error: ExecError) -> Result<(), ExecError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.is_transient() || since.elapsed() > LIMIT {
            return Err(error);
        }
        tracing::debug!(%error, "a workspace is unreachable; retrying");
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        Ok(())
    }
}
