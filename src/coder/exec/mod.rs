//! Runs commands inside a workspace over its terminal: exit code, both streams apart and whole, cut or not.
//!
//! A terminal gives one stream and no exit code, and dies with its connection. So a small shell script goes in
//! through it: a supervisor in a session of its own runs the command and keeps its output in files, and whoever
//! comes later reads on where the last one stopped. The scripts are in `script/`; they need `sh`, `stty`, `mkdir`,
//! `cat`, `tail`, `rm`, `sleep` and `/proc`, and use `setsid` and `grep` where they are,
//! and `dd` and `wc` to bound what a flood of output takes.

mod ask;
mod command;
mod error;
mod follow;
mod frames;
mod link;
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
pub(crate) use script::END_FUNCTIONS;
pub use state::{RunEnd, RunState};
