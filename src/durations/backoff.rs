//! The pauses between retries.

use std::ops::Div;
use std::time::Duration;

/// A pause that doubles each time, up to the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after so many earlier ones in a row.
    pub fn pause(self, n_earlier: u32) -> Duration {
        self.first.saturating_mul(2u32.saturating_pow(n_earlier)).min(self.longest)
    }
}

impl Div<u32> for Backoff {
    type Output = Self;

    fn div(self, divisor: u32) -> Self {
        Self { first: self.first / divisor, longest: self.longest / divisor }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pause_doubles_up_to_the_longest() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let pauses = [0, 1, 2, 3, u32::MAX].map(|n_earlier| backoff.pause(n_earlier).as_secs());
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
    }

    proptest! {
        #[test]
        fn no_pause_is_shorter_than_an_earlier_one_or_longer_than_the_longest(
            first: Duration, longest: Duration, n_earlier: u32
        ) {
            let backoff = Backoff::new(first, longest);
            let (pause, next) = (backoff.pause(n_earlier), backoff.pause(n_earlier.saturating_add(1)));
            prop_assert!(backoff.pause(0) <= pause && pause <= next && next <= longest);
        }
    }
}
