//! Starts processes of this machine, finds them again after our own restart and terminates whole trees.
//!
//! A process is identified by pid, start time and boot, so a reused pid is never mistaken for it. Processes of one
//! workspace or run are found by a marker in the environment, which children inherit across sessions, and by
//! parents, sessions, groups and PID namespaces. No process can block the search for the others (`reading`).
//!
//! In workspaces without our program, shell scripts (`coder/exec/script`) find and end the processes of a run: by
//! the marker, by parents and by the group of the main process. `tests/it/process/found.rs` applies one table of
//! cases to both.

mod end;
mod fuse;
mod identity;
mod mark;
mod namespace;
mod program;
mod reading;
mod set;
mod signals;
mod spawn;
mod stat;
mod table;
mod tree;

pub use end::{EndLimits, end_tree};
pub use identity::{ProcessId, exited, is_alive};
pub use spawn::{ProcessSpec, Spawned, spawn};
pub use tree::{Marker, find};

pub(crate) use end::{child_of, end_from_top, end_session, kill};
pub(crate) use identity::is_running;
pub(crate) use program::{is_alone, runs_in};
pub(crate) use signals::{StopSignals, restore_for_children};
pub(crate) use stat::start_time;
pub(crate) use tree::{Marked, marked};
