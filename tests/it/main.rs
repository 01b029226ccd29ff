//! The one integration-test target: a harness and one file a resource.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod cli;
mod coder;
mod contract;
mod exec;
mod fleet;
mod harness;
mod local;
mod local_blocks;
mod mcp;
mod process;
mod rest;
mod runner;
mod store;
mod stub;
mod tasks;
mod tidy;
