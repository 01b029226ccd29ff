//! Runs commands in a workspace over its terminal, with exit code and separate streams, across broken connections.
//!
//! A terminal offers one stream and no exit code, and ends with its connection. So a small shell script is sent
//! through it: a supervisor in its own session runs the command and keeps its output in files, and later
//! connections continue reading at the last offset. The scripts in `script/` require `sh`, `stty`, `mkdir`, `cat`,
//! `tail`, `rm`, `sleep` and `/proc`; they use `setsid` and `grep` if available, and `dd` and `wc` to bound stored
//! output.

mod ask;
mod command;
mod error;
mod follow;
mod follow_connection;
mod frames;
mod limits;
mod once;
mod outage;
mod quote;
mod run;
mod script;
mod state;
mod terminal;

pub use command::{Command, Exit, Inherited, Output};
pub use error::ExecError;
pub use follow::{Offsets, OutputStream, RunAddress, RunEvent};
pub use limits::ExecLimits;
pub(crate) use script::END_FUNCTIONS;
pub use state::{RunEnd, RunState};
