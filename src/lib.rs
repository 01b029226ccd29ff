//! fleet-mcp: one binary that turns a Coder deployment into a fleet of coding agents.
//!
//! Layers, outermost first; a `tidy` test holds who may import whom:
//! `cli`, `mcp` and `web` are the surfaces, `view` the shapes they share, `app` the use cases,
//! `domain` the pure rules, `store` all SQL, `coder` the typed client of a Coder server. `local` is a Coder of
//! our own, `runner` what runs inside a workspace, and `engine` the agent CLIs it runs. Below all of them, `process`
//! finds and ends processes of this machine, `git` calls git, `files` writes files whole, `serve` is the HTTP
//! server, and `durations` are named limits.

mod address;
pub mod app;
pub mod boot;
pub mod cli;
pub mod coder;
pub mod config;
pub mod domain;
pub mod durations;
pub mod engine;
mod files;
pub mod git;
pub mod hooks;
pub mod local;
pub mod mcp;
pub mod process;
pub mod runner;
pub mod serve;
pub mod store;
pub mod telemetry;
pub mod view;
pub mod web;
