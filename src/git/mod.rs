//! Git on this machine and in workspaces: called so that no repository makes it start programs, with parsed output.
//!
//! The runner, the embedded Coder, the engines and the CLI use `Git`. Scripts for workspaces without our program
//! begin with [`quiet::shell_function`] and use the argument lists from here.

pub(crate) mod bounded;
mod command;
pub(crate) mod lock;
pub mod quiet;
pub(crate) mod refs;
mod repository;
pub(crate) mod state;

pub(crate) use command::{Git, GitError, output_of, run, version};
pub use repository::Repository;
