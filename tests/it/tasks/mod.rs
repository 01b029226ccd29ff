//! Tasks: given once, seen, stopped, never lost, on agents that really work and on ones that misbehave.

mod agent_api;
mod cancel;
mod engines;
mod exec;
mod faults;
mod life;
mod outcomes;
mod queue;
mod reports;
mod streams;
