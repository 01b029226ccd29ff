//! Starts the processes of a workspace, finds them again after our own restart and ends them to the last one.
//!
//! A process is known by pid, start time and boot, so a pid that came round again is never mistaken for it. A
//! workspace is known by a marker in the environment, which children inherit whatever session they move to.

mod end;
mod identity;
mod spawn;
mod stat;
mod table;
mod tree;

pub use end::{EndLimits, end_tree};
pub use identity::{ProcessId, exited, is_alive};
pub use spawn::{ProcessSpec, Spawned, spawn};
pub use tree::{Marker, find};

pub(in crate::local) use end::{child_of, end_session, kill};
pub(in crate::local) use tree::marked;
