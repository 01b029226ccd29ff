//! Git on this machine and in workspaces: called so that no repository makes it start programs, with parsed output.
//! answers mean.
//! The runner, the embedded Coder, the engines and the CLI use `Git`. Scripts for workspaces without our program
//! begin with [`quiet::shell_function`] and use the argument lists from here.
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
