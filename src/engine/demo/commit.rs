//! The work of the demo engine: one new file and one commit of it.

use std::io;
use std::path::Path;
use std::time::Duration;

use thiserror::Error;
use uuid::Uuid;

use crate::domain::text;
use crate::git::{GitError, run as git};

/// Each commit has its own file, so that parallel runs and later merges never conflict.
const FOLDER: &str = "fleet-demo";
const AUTHOR: [&str; 4] = ["-c", "user.name=Fleet Demo", "-c", "user.email=demo@fleet.invalid"];
const MAX_SUBJECT: usize = 72;
/// Parallel commits in one repository are retried, since git does not wait for its locks.
const N_TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

#[derive(Debug, Error)]
pub(super) enum CommitError {
    #[error("write the demo file")]
    Write(#[source] io::Error),
    #[error(transparent)]
    Git(#[from] GitError),
}

pub(super) async fn is_repository(directory: &Path) -> bool {
    git(directory, &["rev-parse", "--git-dir"]).await.is_ok()
}

/// Commits the text in a new file and returns the commit with its subject. A step that was committed before a stop is
/// not committed again.
pub(super) async fn commit(directory: &Path, work: &str, step: Uuid) -> Result<String, CommitError> {
    let (name, subject) = (format!("{FOLDER}/{}.md", step.simple()), subject(work));
    if git(directory, &["cat-file", "-e", &format!("HEAD:{name}")]).await.is_err() {
        commit_file(directory, &name, (work, &subject)).await?;
    }
    let head = git(directory, &["rev-parse", "--short", "HEAD"]).await?;
    Ok(format!("{} {subject}", head.trim()))
}

async fn commit_file(directory: &Path, name: &str, (work, subject): (&str, &str)) -> Result<(), CommitError> {
    let write = || {
        std::fs::create_dir_all(directory.join(FOLDER))?;
        std::fs::write(directory.join(name), format!("{}\n", work.trim_end()))
    };
    write().map_err(CommitError::Write)?;
    patiently(directory, &["add", "--force", "--", name]).await?;
    let message = format!("--message={subject}");
    let mut arguments = AUTHOR.to_vec();
    arguments.extend(["commit", "--quiet", "--no-verify", "--cleanup=verbatim", &message, "--only", "--"]);
    arguments.push(name);
    Ok(patiently(directory, &arguments).await?)
}

fn subject(work: &str) -> String {
    let first = work.lines().map(text::one_line).find(|line| !line.is_empty());
    text::cut(&first.unwrap_or_else(|| "Demo work".to_owned()), MAX_SUBJECT)
}

/// Retries while another process holds a lock of the repository.
async fn patiently(directory: &Path, arguments: &[&str]) -> Result<(), GitError> {
    for _ in 1..N_TRIES {
        match git(directory, arguments).await {
            Err(GitError::Failed { stderr, .. }) if stderr.contains("lock") => {
                tokio::time::sleep(PAUSE).await;
            }
            other => return other.map(drop),
        }
    }
    git(directory, arguments).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_step_that_is_taken_again_commits_nothing_more() {
        let directory = tempfile::tempdir().unwrap();
        git(directory.path(), &["init", "--quiet"]).await.unwrap();
        let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
        let summary = commit(directory.path(), "same", first).await.unwrap();
        assert_eq!(commit(directory.path(), "same", first).await.unwrap(), summary);
        commit(directory.path(), "same", second).await.unwrap();
        let count = git(directory.path(), &["rev-list", "--count", "HEAD"]).await.unwrap();
        assert_eq!(count.trim(), "2");
    }

    #[test]
    fn the_subject_is_the_first_line_that_says_something() {
        assert_eq!(subject("\n  # Objective \nmore"), "# Objective");
        assert_eq!(subject(" \n"), "Demo work");
        assert_eq!(subject(&"x".repeat(80)).chars().count(), MAX_SUBJECT);
    }
}
