//! Assembles a running server and shuts it down.

pub mod background;
pub mod data_dir;
#[cfg(test)]
mod limits_tests;
mod local_coder;
mod server;
mod squads;
mod stdio;
mod store_location;
mod token_file;

use std::ffi::OsString;
use std::path::PathBuf;

use thiserror::Error;

use crate::app;
use crate::coder::CoderError;
use crate::engine::UnknownEngine;
use crate::engine::template::TemplateError;
use crate::local::LocalError;
use crate::mcp::bridge::BridgeError;
use crate::mcp::tools::UnknownToolset;
use crate::runner::RunnerError;
use crate::store::StoreError;

pub use local_coder::{EmbeddedOptions, local_coder};
pub use server::{Ready, serve, up};
pub use stdio::{StdioOptions, stdio};

/// Why a server could not start or continue.
#[derive(Debug, Error)]
pub enum BootError {
    #[error("{path} is held by {by}")]
    Held { path: PathBuf, by: String },
    #[error("cannot use the data directory {path}: make it writable, or choose another one with --data-dir")]
    DataDir {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "no Coder deployment is set: set CODER_URL and CODER_SESSION_TOKEN, or run 'fleet-mcp up', which \
        has an embedded Coder"
    )]
    NoCoder,
    #[error("mcp.toolsets")]
    Toolsets(#[source] UnknownToolset),
    #[error("cannot listen on {address}: another program may use the port; choose another one with --port")]
    Listen {
        address: std::net::SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "agents could reach the database: {directory} also contains {foreign_file:?} and cannot be hidden from \
        them; move the database into a directory of its own and set MCP_DATABASE_PATH to its new path"
    )]
    StorePlace { directory: PathBuf, foreign_file: OsString },
    #[error("cannot open the store")]
    Store(#[source] StoreError),
    #[error("cannot set up the Coder client")]
    Coder(#[source] CoderError),
    #[error("cannot start the embedded Coder")]
    LocalCoder(#[source] LocalError),
    #[error("cannot load the fleet")]
    Fleet(#[source] app::error::Error),
    #[error("cannot write {path}")]
    TokenFile {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot watch for signals")]
    Signals(#[source] std::io::Error),
    #[error("the server stopped unexpectedly")]
    Serve(#[source] std::io::Error),
    #[error(transparent)]
    Engine(UnknownEngine),
    #[error("set RUN_TEMPLATE_PATH to the template of the custom engine, or use --engine demo")]
    NoTemplate,
    #[error("the template {origin} cannot be used")]
    Template {
        origin: String,
        #[source]
        source: TemplateError,
    },
    #[error("the bridge between the client and the server broke")]
    Bridge(#[source] BridgeError),
    #[error("the agent of this workspace failed")]
    Agent(#[source] RunnerError),
    #[error("a server in the background did not start ({status}); see {log}")]
    Background { log: PathBuf, status: String },
}
