//! Reads the state of the workspace's repository.

use std::path::Path;
use std::time::Duration;

use crate::domain::bundle::is_object_id;
use crate::git::state::GitState;
use crate::git::{self, GitError, Repository};

/// A slower repository is read after the next run. A FIFO in it would block git for ever.
const LIMIT: Duration = Duration::from_secs(5);

/// The state of the repository of a directory in which work began at this commit; none without a readable one.
pub(super) async fn look(directory: &Path, base: Option<&str>) -> Option<GitState> {
    in_time(GitState::read(directory, base)).await
}

/// The location of the repository; none if there is none.
pub(super) async fn repository(directory: &Path) -> Option<Repository> {
    in_time(Repository::of(directory)).await.flatten()
}

/// The checked-out commit, if any.
pub(super) async fn head(directory: &Path) -> Option<String> {
    let head = ask(directory, &["rev-parse", "--verify", "--quiet", "HEAD"]).await?;
    Some(head).filter(|head| is_object_id(head))
}

/// The full name of the checked-out branch, if any.
pub(super) async fn branch(directory: &Path) -> Option<String> {
    ask(directory, &["symbolic-ref", "--quiet", "HEAD"]).await
}

async fn ask(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = in_time(git::run(directory, arguments)).await?;
    Some(output.trim().to_owned())
}

async fn in_time<T>(asking: impl Future<Output = Result<T, GitError>>) -> Option<T> {
    match tokio::time::timeout(LIMIT, asking).await {
        Ok(Ok(output)) => Some(output),
        Ok(Err(error)) => {
            tracing::debug!(%error, "git cannot read the state of the workspace");
            None
        }
        Err(_) => {
            tracing::warn!("git timed out reading the state of the workspace");
            None
        }
    }
}
