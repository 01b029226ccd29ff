//! The clock of the rules: a jump of the wall clock changes no age, and no age is negative.

use chrono::{DateTime, TimeDelta, Utc};

use super::limits::Limits;

/// A smaller difference between the two clocks is not a jump.
const TOLERANCE: TimeDelta = TimeDelta::seconds(2);
/// Older jumps no longer affect any running deadline.
const MOST_JUMPS: usize = 32;

/// The wall clock with its observed jumps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    now: DateTime<Utc>,
    /// The periods between jumps, the oldest first; the oldest has no beginning.
    before: Vec<ClockPeriod>,
    /// The time of the last jump.
    began: DateTime<Utc>,
    limits: Limits,
}

/// A period of the wall clock without a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockPeriod {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

impl Clock {
    pub fn at(now: DateTime<Utc>) -> Self {
        Self::with(now, Limits::NORMAL)
    }

    pub fn with(now: DateTime<Utc>, limits: Limits) -> Self {
        Self { now, before: Vec::new(), began: DateTime::<Utc>::MIN_UTC, limits }
    }

    /// The durations that ages are compared with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The current wall-clock time.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// Adds a reading of the wall clock, with the time that really passed since the previous one.
    pub fn read(&mut self, now: DateTime<Utc>, passed: TimeDelta) {
        let by = now - self.now - passed;
        if by.abs() > TOLERANCE {
            self.before.push(ClockPeriod { from: self.began, to: self.now });
            self.before.drain(..self.before.len().saturating_sub(MOST_JUMPS));
            self.before[0].from = DateTime::<Utc>::MIN_UTC;
            // Timestamps between the jump and this reading belong to the new period.
            self.began = now - passed;
        }
        self.now = now;
    }

    /// The time passed since then. After a backward jump the clock repeats times: such a timestamp counts as the
    /// later occurrence, which expires nothing early.
    pub fn since(&self, then: DateTime<Utc>) -> TimeDelta {
        let current = ClockPeriod { from: self.began, to: self.now };
        let (mut later, mut at_least) = (TimeDelta::zero(), TimeDelta::zero());
        for period in self.before.iter().chain([&current]).rev() {
            if (period.from..=period.to).contains(&then) {
                return later + (period.to - then);
            }
            later += (period.to - period.from).max(TimeDelta::zero());
            // A time that the clock skipped is as old as the jump.
            if then < period.from {
                at_least = later;
            }
        }
        at_least
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
        assert_eq!(clock.since(at(86_415)), TimeDelta::seconds(7));
        assert_eq!(clock.since(at(90_000)), TimeDelta::zero(), "no clock has shown that yet");
    }

    #[test]
    fn a_stamp_taken_between_a_jump_and_the_next_reading_is_as_old_as_it_is() {
        let mut clock = Clock::at(at(100));
        clock.read(at(3_710), TimeDelta::seconds(10));
        assert_eq!(clock.since(at(3_705)), TimeDelta::seconds(5));
        clock.read(at(110), TimeDelta::seconds(10));
        assert_eq!(clock.since(at(105)), TimeDelta::seconds(5));
        assert_eq!(clock.since(at(50)), TimeDelta::seconds(70), "it was taken before both jumps");
    }

    #[test]
    fn ages_grow_on_after_a_backward_jump_and_after_its_correction() {
        let mut clock = Clock::at(at(10_000));
        clock.read(at(6_401), TimeDelta::seconds(1));
        for (stamp, age) in [(9_990, 11), (10_000, 1), (6_395, 3_606)] {
            assert_eq!(clock.since(at(stamp)), TimeDelta::seconds(age));
        }
        clock.read(at(6_421), TimeDelta::seconds(20));
        assert_eq!(clock.since(at(9_990)), TimeDelta::seconds(31));
        assert_eq!(clock.since(at(6_411)), TimeDelta::seconds(10), "it was taken after the jump");
        clock.read(at(10_022), TimeDelta::seconds(1));
        assert_eq!(clock.since(at(9_990)), TimeDelta::seconds(32));
        assert_eq!(clock.since(at(8_000)), TimeDelta::seconds(2_022));
    }

    #[test]
    fn a_time_that_the_clock_skipped_is_as_old_as_the_jump() {
        let mut clock = Clock::at(at(100));
        clock.read(at(1_001), TimeDelta::seconds(1));
        clock.read(at(1_006), TimeDelta::seconds(5));
        assert_eq!(clock.since(at(500)), TimeDelta::seconds(6));
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
                    // Small differences within the tolerance may add up.
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
