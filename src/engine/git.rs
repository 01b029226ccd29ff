//! Git in a workspace, run so that nothing the repository brings along is started.

use std::path::Path;
use std::process::Stdio;

use thiserror::Error;
use tokio::process::Command;

/// Hooks, watchers and housekeeping in the background could all start programs of the repository's choice or
/// outlive us. None of our commands makes a diff, so no diff driver runs either.
const QUIET: [&str; 5] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
];
/// Variables that would point git at another repository or program.
const FOREIGN: [&str; 5] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS"];

/// Git neither writes behind the agent's back, nor asks anybody, nor answers in another language.
pub(crate) const ALONE: [(&str, &str); 3] =
    [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C")];

#[derive(Debug, Error)]
pub(crate) enum GitError {
    #[error("start git")]
    Start(#[source] std::io::Error),
    #[error("git {command}: {message}")]
    Refused { command: String, message: String },
}

/// Runs one git command in a directory; its standard output as text.
pub(crate) async fn git(directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let output = command(directory).args(arguments).output().await.map_err(GitError::Start)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let command = arguments.iter().find(|argument| !argument.starts_with('-')).copied().unwrap_or_default();
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(GitError::Refused { command: command.to_owned(), message })
}

/// What goes before every git command.
pub(crate) fn quiet<'a>() -> impl Iterator<Item = &'a str> {
    QUIET.into_iter().flat_map(|setting| ["-c", setting])
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(quiet());
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    command.envs(ALONE);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}
