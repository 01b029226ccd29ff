//! The one integration-test target: a harness and one file per resource.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod chaos;
mod cli;
mod coder;
mod connect;
mod contract;
mod doctor;
mod engines;
mod exec;
mod fleet;
mod harness;
mod identity;
mod isolation;
mod local;
mod local_blocks;
mod mcp;
mod process;
mod rescue;
mod rest;
mod runner;
mod squads;
mod store;
mod stub;
mod tasks;
mod tidy;
