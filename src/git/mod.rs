//! Git on this machine and in workspaces: how it is called so that no repository makes it start programs, and what its
//! answers mean.
//!
//! The runner, the embedded Coder, the engines and the CLI call it through `Git`. Scripts for workspaces that have no
//! program of ours begin with [`quiet::shell_function`] and ask with the arguments that stand here.

pub(crate) mod bounded;
mod command;
pub(crate) mod lock;
pub mod quiet;
pub(crate) mod refs;
mod repository;
pub(crate) mod state;

pub(crate) use command::{Git, GitError, output_of, run};
pub use repository::Repository;
