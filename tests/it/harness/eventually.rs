//! Waits for a condition that announces itself by no event.

use std::time::Duration;
use tokio::time::{Instant, sleep};

const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Polls `condition` until it holds; fails the test with `what` when it never does.
///
/// The deadline is far beyond what a slow machine needs: reaching it means the condition will not come true.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    eventually_within(DEADLINE, what, condition).await;
}

/// The same for more work than a minute is sure to be enough for.
pub(crate) async fn eventually_within(limit: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition().await {
        if Instant::now() >= deadline {
            panic!("still not true after {} s: {what}", limit.as_secs());
        }
        sleep(PAUSE).await;
    }
}
