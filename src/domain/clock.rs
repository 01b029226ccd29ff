//! Time as the rules see it: a wall clock that jumps makes nothing older, and no age is negative.

use chrono::{DateTime, TimeDelta, Utc};

/// A smaller difference between the two clocks is no jump.
const TOLERANCE: TimeDelta = TimeDelta::seconds(2);
/// Older jumps concern nothing that is still timed.
const MOST_JUMPS: usize = 32;

/// The wall clock, with the jumps that were seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    now: DateTime<Utc>,
    jumps: Vec<Jump>,
}

/// The wall clock went forward by more than the time that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Jump {
    /// What the clock showed right after it.
    to: DateTime<Utc>,
    by: TimeDelta,
}

impl Clock {
    pub fn at(now: DateTime<Utc>) -> Self {
        Self { now, jumps: Vec::new() }
    }

    /// What people call now.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// Takes the next reading of the wall clock, and how much time really passed since the one before.
    pub fn read(&mut self, now: DateTime<Utc>, passed: TimeDelta) {
        let by = now - self.now - passed;
        if by > TOLERANCE {
            self.jumps.push(Jump { to: now, by });
            self.jumps.drain(..self.jumps.len().saturating_sub(MOST_JUMPS));
        }
        self.now = now;
    }

    /// How much time has passed since then. A backward jump makes it shorter, which expires nothing early.
    pub fn since(&self, then: DateTime<Utc>) -> TimeDelta {
        let jumped: TimeDelta = self.jumps.iter().filter(|jump| then < jump.to).map(|jump| jump.by).sum();
        (self.now - then - jumped).max(TimeDelta::zero())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    #[test]
    fn a_jump_forward_makes_nothing_older_and_one_backward_makes_no_age_negative() {
        let mut clock = Clock::at(at(100));
        clock.read(at(110), TimeDelta::seconds(10));
        assert_eq!(clock.since(at(100)), TimeDelta::seconds(10));
        clock.read(at(86_411), TimeDelta::seconds(1));
        assert_eq!((clock.now(), clock.since(at(100))), (at(86_411), TimeDelta::seconds(11)));
        clock.read(at(86_421), TimeDelta::seconds(10));
        assert_eq!(
            clock.since(at(86_415)),
            TimeDelta::seconds(6),
            "what came after the jump is as old as it is"
        );
        assert_eq!(clock.since(at(100)), TimeDelta::seconds(21));
        clock.read(at(50), TimeDelta::seconds(1));
        assert_eq!(clock.since(at(86_415)), TimeDelta::zero());
    }

    proptest! {
        #[test]
        fn no_age_is_ever_greater_than_the_time_that_passed(
            steps in prop::collection::vec((0i64..100, prop_oneof![Just(0i64), -90_000i64..90_000]), 1..40),
        ) {
            let (mut clock, mut wall, mut passed) = (Clock::at(at(0)), 0, 0);
            let mut marks = vec![(at(0), 0)];
            for (step, jump) in steps {
                wall += step + jump;
                passed += step;
                clock.read(at(wall), TimeDelta::seconds(step));
                for (then, then_passed) in &marks {
                    // Each small difference within the tolerance may add up.
                    let slack = TOLERANCE * i32::try_from(marks.len()).unwrap();
                    prop_assert!(clock.since(*then) >= TimeDelta::zero());
                    let is_plain = marks.windows(2).all(|pair| pair[0].0 <= pair[1].0) && at(wall) >= marks[marks.len() - 1].0;
                    prop_assert!(!is_plain || clock.since(*then) <= TimeDelta::seconds(passed - then_passed) + slack);
                }
                marks.push((at(wall), passed));
            }
        }
    }
}
