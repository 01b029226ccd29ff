//! The fleet's clock: the wall clock, corrected by a monotonic one.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use chrono::{TimeDelta, Utc};

use crate::domain::clock::Clock;
use crate::domain::limits::Limits;

/// The last reading of both clocks.
#[derive(Debug)]
pub(super) struct FleetClock(Mutex<(Clock, Instant)>);

impl FleetClock {
    pub(super) fn new(limits: Limits) -> Self {
        Self(Mutex::new((Clock::with(Utc::now(), limits), Instant::now())))
    }

    /// Reads both clocks; frequent reads detect every jump.
    pub(super) fn read(&self) -> Clock {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall, steady) = (Utc::now(), Instant::now());
        let passed = TimeDelta::from_std(steady.saturating_duration_since(last.1)).unwrap_or_default();
        last.0.read(wall, passed);
        last.1 = steady;
        last.0.clone()
    }
}
