//! Starts processes of this machine, finds them again after our own restart and ends them to the last one.
//!
//! A process is known by pid, start time and boot, so a pid that came round again is never mistaken for it. What
//! belongs together (a workspace, a run) is known by a marker in the environment, which children inherit whatever
//! session they move to, and by parents, sessions, groups and PID namespaces. No process can hold up a look at the
//! others (`reading`).
//!
//! Workspaces that have no program of ours find and end the processes of a run by shell scripts (`coder/exec/script`):
//! by the marker, by parents and by the group of the main process. `tests/it/process/found.rs` plays one table of cases
//! against both.

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
