//! The program as its users run it: started, stopped, killed, and found by its clients.

mod both_kills;
#[cfg(feature = "test-hooks")]
mod build_kills;
mod doctor_locks;
mod found;
mod half_open;
mod interrupts;
mod kill_points;
#[cfg(feature = "test-hooks")]
mod panics;
mod parked;
mod serving;
mod signals;
mod stdio;
mod task_kills;
mod token_refused;
