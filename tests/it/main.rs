//! The one integration-test target: a harness and one file a resource.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod cli;
mod coder;
mod connect;
mod contract;
mod engines;
mod exec;
mod fleet;
mod harness;
mod identity;
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
