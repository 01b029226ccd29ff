//! Stays below Coder's rate limit, which counts per user, exact path and minute.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// How many requests pass between two removals of unused paths.
const SWEEP_EVERY: u32 = 1024;

/// One budget per path, refilled steadily.
#[derive(Debug)]
pub(super) struct Limit {
    paths: DefaultKeyedRateLimiter<String>,
    passed: AtomicU32,
}

impl Limit {
    pub(super) fn new(requests_per_minute: NonZeroU32) -> Self {
        Self { paths: RateLimiter::keyed(quota(requests_per_minute)), passed: AtomicU32::new(0) }
    }

    /// Waits until this path has quota. Paths contain ids, so unused ones are removed now and then.
    pub(super) async fn pass(&self, path: &str) {
        self.paths.until_key_ready(&path.to_owned()).await;
        if self.passed.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            self.paths.retain_recent();
        }
    }
}

/// A quarter may be sent as a burst and the rest is spread over the minute, so that no interval of a minute exceeds
/// the given number. (A limit of one is the exception: two requests may fall into one minute.)
fn quota(requests_per_minute: NonZeroU32) -> Quota {
    let burst = NonZeroU32::new(requests_per_minute.get() / 4).unwrap_or(NonZeroU32::MIN);
    let steady = NonZeroU32::new(requests_per_minute.get() - burst.get()).unwrap_or(NonZeroU32::MIN);
    Quota::per_minute(steady).allow_burst(burst)
}

#[cfg(test)]
mod tests {
    use super::{NonZeroU32, quota};

    #[test]
    fn no_minute_sees_more_than_allowed() {
        for allowed in [2, 3, 4, 60, 400] {
            let quota = quota(NonZeroU32::new(allowed).unwrap());
            let steady = 60.0 / quota.replenish_interval().as_secs_f64();
            let most = f64::from(quota.burst_size().get()) + steady.round();
            assert_eq!(most, f64::from(allowed));
        }
    }
}
