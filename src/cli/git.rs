//! The operator's own git; it starts no program that a repository's settings name.

use std::path::Path;

use super::error::CliError;
use crate::domain::text::{cut, one_line};
use crate::git::quiet::Reach;
use crate::git::{Git, GitError};

const LONGEST_COMPLAINT: usize = 300;

/// The purpose of a git command, and the advice if git refuses it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Purpose {
    pub(super) doing: &'static str,
    pub(super) next: &'static str,
}

/// Git's standard output.
pub(super) async fn run(directory: &Path, arguments: &[&str], purpose: Purpose) -> Result<String, CliError> {
    match Git::of_process(Reach::Files).run(directory, arguments).await {
        Ok(printed) => Ok(printed.trim().to_owned()),
        Err(error) => Err(refused(&error, purpose)),
    }
}

fn refused(error: &GitError, purpose: Purpose) -> CliError {
    let (output, next) = match error {
        GitError::Start(source) => (source.to_string(), "Install git."),
        GitError::Flood { source, .. } => (source.to_string(), "Check the repository with git."),
        GitError::Failed { status, stderr, .. } if stderr.is_empty() => {
            (format!("git ended with {status}"), purpose.next)
        }
        GitError::Failed { stderr, .. } => (stderr.clone(), purpose.next),
    };
    CliError::Git {
        doing: purpose.doing,
        output: cut(&one_line(&output), LONGEST_COMPLAINT),
        next: next.to_owned(),
    }
}
