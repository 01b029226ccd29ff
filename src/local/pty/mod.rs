//! Terminals of a workspace agent: shared by clients, which detach and reconnect by id.

mod input;
mod replay;
mod session;
mod sessions;
mod shared;
mod socket;

use std::collections::BTreeMap;
use std::ffi::OsString;

pub use input::PtyInput;
pub use sessions::PtySessions;
pub use shared::Attachment;
pub use socket::serve_socket;

/// What to run in a new terminal; attaching to an existing one uses only the size.
#[derive(Debug, Clone)]
pub struct PtySpec {
    /// A program that executes the command after a preparation, such as entering a directory; may be empty.
    pub prefix: Vec<OsString>,
    pub lead: SessionLeader,
    pub command: PtyCommand,
    /// Complete: nothing is inherited. `TERM` is added.
    pub environment: BTreeMap<String, String>,
    pub width: u16,
    pub height: u16,
}

/// Which process leads the session of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLeader {
    /// The started process.
    Started,
    /// The only child of the started process; it takes the terminal by itself.
    Child,
}

/// What runs in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PtyCommand {
    /// The shell that the environment names, as at a login.
    LoginShell,
    /// A script for `sh -c`.
    Script(String),
}
