//! The in-workspace agent as a process: AgentAPI, the demo engine, kills, interrupts, reports, metadata.

mod agentapi;
mod budget;
mod delivery;
mod directives;
mod interrupts;
mod locks;
mod long_life;
mod metadata;
mod parked;
mod queue;
mod real;
mod reports;
mod templated;
mod workspace;
