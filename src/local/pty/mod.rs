//! Terminals of a workspace agent: commands that clients share, leave and find again by a reconnect id.

mod input;
mod replay;
mod session;
mod sessions;
mod shared;
mod socket;

use std::collections::BTreeMap;
use std::ffi::OsString;

pub use input::PtyInput;
pub use sessions::{IDLE_LIMIT, PtySessions};
pub use shared::Attachment;
pub use socket::serve_socket;

/// What to run in a new terminal; an attachment to one that already runs takes only its size from here.
#[derive(Debug, Clone)]
pub struct PtySpec {
    /// A command that becomes ours after it has done its part, such as to enter a directory; empty for none.
    pub prefix: Vec<OsString>,
    pub lead: Lead,
    pub command: PtyCommand,
    /// All of it: nothing of our own environment is inherited. `TERM` is set on top.
    pub environment: BTreeMap<String, String>,
    pub width: u16,
    pub height: u16,
}

/// Which process leads the session of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// The process that we start.
    Started,
    /// The only child of that process, which takes the terminal by itself.
    ItsChild,
}

/// What runs in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PtyCommand {
    /// The shell that the environment names, as at a login.
    LoginShell,
    /// A script given to `sh -c`.
    Script(String),
}
