//! Git in a workspace, run so that nothing the repository brings along is started.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use thiserror::Error;
use tokio::process::Command;

use crate::bounded;
use crate::domain::quiet_git::{self, FOREIGN, LIST, Reach};

#[derive(Debug, Error)]
pub(crate) enum GitError {
    #[error("start git")]
    Start(#[source] io::Error),
    #[error("git {command}: {message}")]
    Refused { command: String, message: String },
}

/// Runs one git command in a directory; its standard output as text.
pub(crate) async fn git(directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let listing = run(directory, &LIST, &quiet_git::environment(Reach::Local)).await?;
    run(directory, arguments, &quiet_git::environment_after(Reach::Local, &listing)).await
}

async fn run(
    directory: &Path,
    arguments: &[&str],
    environment: &BTreeMap<String, String>,
) -> Result<String, GitError> {
    let mut command = Command::new("git");
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.arg("-C").arg(directory).args(arguments).envs(environment);
    command.kill_on_drop(true);
    let word = arguments.iter().find(|argument| !argument.starts_with('-')).copied().unwrap_or_default();
    let refused = |message: &str| GitError::Refused { command: word.to_owned(), message: message.to_owned() };
    let output = bounded::run(command).await.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => refused(&error.to_string()),
        _ => GitError::Start(error),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // A git that was killed says nothing.
    Err(refused(&if said.is_empty() { output.status.to_string() } else { said }))
}
