//! Waits for a condition that announces itself by no event.

use std::time::Duration;
use tokio::time::{Instant, sleep};

const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Polls `condition` until it holds; fails the test with `what` when it never does.
///
/// The deadline is far beyond what a slow machine needs: reaching it means the condition will not come true.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition().await {
        if Instant::now() >= deadline {
            panic!("still not true after {} s: {what}", DEADLINE.as_secs());
        }
        sleep(PAUSE).await;
    }
}
