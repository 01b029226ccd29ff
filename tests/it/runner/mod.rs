//! The in-workspace agent as a process: AgentAPI, the demo engine, kills, interrupts, reports, metadata.

mod agentapi;
mod delivery;
mod directives;
mod interrupts;
mod locks;
mod metadata;
mod reports;
mod workspace;
