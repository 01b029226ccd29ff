//! Repeats a piece of work and compares the times of two.

use std::time::{Duration, Instant};

/// How much a run of the benchmarks does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// Only shows that they still run.
    Quick,
}

impl Extent {
    pub(crate) fn of<T>(self, whole: T, quick: T) -> T {
        match self {
            Self::Whole => whole,
            Self::Quick => quick,
        }
    }
}

/// Times of each round, in order of length, with a pause after each.
pub(crate) async fn measure(n_rounds: usize, pause: Duration, mut round: impl AsyncFnMut()) -> Vec<Duration> {
    let mut times = Vec::with_capacity(n_rounds);
    for _ in 0..n_rounds {
        let start = Instant::now();
        round().await;
        times.push(start.elapsed());
        tokio::time::sleep(pause).await;
    }
    times.sort();
    times
}

pub(crate) fn median(times: &[Duration]) -> Duration {
    times[times.len() / 2]
}

pub(crate) fn worst(times: &[Duration]) -> Duration {
    times[times.len() - 1]
}

/// How many times as long the second takes, by the medians.
pub(crate) fn ratio(first: &[Duration], second: &[Duration]) -> f64 {
    median(second).as_secs_f64() / median(first).as_secs_f64().max(f64::EPSILON)
}
