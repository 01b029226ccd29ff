//! Decides when to publish the usage of the running turn: soon, but not as often as an engine reports it.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Published {
    interval: Duration,
    last: Option<Instant>,
    due_at: Option<Instant>,
}

impl Published {
    pub(super) fn every(interval: Duration) -> Self {
        Self { interval, last: None, due_at: None }
    }

    /// Records that there are unpublished figures.
    pub(super) fn outdated(&mut self, now: Instant) {
        let next = self.last.map_or(now, |last| now.max(last + self.interval));
        self.due_at.get_or_insert(next);
    }

    pub(super) fn renewed(&mut self, now: Instant) {
        *self = Self { last: Some(now), due_at: None, ..*self };
    }

    /// Returns when something must be published.
    pub(super) async fn due(&self) {
        match self.due_at {
            Some(due_at) => tokio::time::sleep_until(due_at).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(500);

    #[test]
    fn the_first_figures_are_published_at_once_and_later_ones_once_a_period() {
        let (mut published, now) = (Published::every(INTERVAL), Instant::now());
        published.outdated(now);
        assert_eq!(published.due_at, Some(now));
        published.renewed(now);
        assert_eq!(published.due_at, None, "nothing is new");
        for n_millis in 1..400 {
            published.outdated(now + Duration::from_millis(n_millis));
        }
        assert_eq!(published.due_at, Some(now + INTERVAL));
        published.renewed(now + INTERVAL);
        published.outdated(now + 9 * INTERVAL);
        assert_eq!(published.due_at, Some(now + 9 * INTERVAL));
    }
}
