//! Asks git about the workspace: where its repository is, and how it stands.

use std::path::Path;
use std::time::Duration;

use crate::domain::bundle::is_object_id;
use crate::engine::Repository;
use crate::engine::git::{GitError, git};
use crate::engine::git_state::{GitState, STATUS, UNPUSHED, since};

/// A repository that takes longer is read after the next run.
const LIMIT: Duration = Duration::from_secs(5);

/// Looks at the repository of a directory, whose work began at this commit; none where there is none to look at.
pub(super) async fn look(directory: &Path, base: Option<&str>) -> Option<GitState> {
    match tokio::time::timeout(LIMIT, read(directory, base)).await {
        Ok(Ok(state)) => Some(state),
        Ok(Err(error)) => {
            tracing::debug!(%error, "no git state");
            None
        }
        Err(_) => {
            tracing::warn!("git takes too long to tell the state of the workspace");
            None
        }
    }
}

/// Where git keeps things; none where there is no repository.
pub(super) async fn repository(directory: &Path) -> Option<Repository> {
    let arguments = ["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"];
    let told = ask(directory, &arguments).await?;
    let mut paths = told.lines().map(Into::into);
    Some(Repository { git_directory: paths.next()?, common_directory: paths.next()? })
}

/// The commit that is checked out; none where there is none.
pub(super) async fn head(directory: &Path) -> Option<String> {
    let head = ask(directory, &["rev-parse", "--verify", "--quiet", "HEAD"]).await?;
    Some(head.trim().to_owned()).filter(|head| is_object_id(head))
}

/// What git says within its time; a FIFO in the repository would hold it for ever.
pub(super) async fn ask(directory: &Path, arguments: &[&str]) -> Option<String> {
    tokio::time::timeout(LIMIT, git(directory, arguments)).await.ok()?.ok()
}

async fn read(directory: &Path, base: Option<&str>) -> Result<GitState, GitError> {
    let state = GitState::of_status(&git(directory, &STATUS).await?);
    if state.head.is_none() {
        return Ok(state);
    }
    let unpushed: Vec<&str> = UNPUSHED.into_iter().chain(base).collect();
    let state = state.with_unpushed(&git(directory, &unpushed).await?);
    let Some(base) = base else { return Ok(state) };
    // An agent may have made its repository anew, without that commit.
    let counts = git(directory, &since(base).each_ref().map(String::as_str)).await.unwrap_or_default();
    Ok(state.with_counts(&counts))
}
