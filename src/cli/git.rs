//! The operator's own git; it starts no program that a repository's settings name.

use std::io;
use std::path::Path;

use tokio::process::Command;

use super::error::CliError;
use crate::bounded;
use crate::domain::quiet_git::{self, FOREIGN, Reach};
use crate::domain::text::{cut, one_line};

const LONGEST_COMPLAINT: usize = 300;

/// What a git command is for, and what to do when git refuses it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Purpose {
    pub(super) doing: &'static str,
    pub(super) next: &'static str,
}

/// What git printed.
pub(super) async fn run(directory: &Path, arguments: &[&str], purpose: Purpose) -> Result<String, CliError> {
    let mut command = Command::new("git");
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.current_dir(directory).kill_on_drop(true);
    command.envs(quiet_git::environment(Reach::Files)).args(arguments);
    let failed = |said: &str, next: &str| CliError::Git {
        doing: purpose.doing,
        said: cut(&one_line(said), LONGEST_COMPLAINT),
        next: next.to_owned(),
    };
    let output = bounded::run(command).await.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => failed(&error.to_string(), "Read the repository with git itself."),
        _ => failed(&error.to_string(), "Install git."),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = if said.trim().is_empty() { format!("it ended with {}", output.status) } else { said.into() };
    Err(failed(&said, purpose.next))
}
