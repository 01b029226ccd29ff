//! Tasks: given once, seen, stopped, never lost, on agents that really work and on ones that misbehave.

mod agent_api;
mod budget;
mod cancel;
mod dead_runners;
mod engines;
mod exec;
mod exec_real;
mod faults;
mod interrupt;
#[cfg(feature = "test-hooks")]
mod kill_points;
mod life;
mod outcomes;
mod questions;
mod queue;
mod reports;
mod silent_apps;
mod strangers;
mod streams;
