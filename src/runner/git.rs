//! What git says about the workspace: the branch, and how much work is not safe elsewhere yet.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::engine::Repository;
use crate::engine::git::{GitError, git};

/// A repository that takes longer is read after the next run.
const LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(super) struct GitState {
    /// None while no branch is checked out.
    #[serde(skip)]
    pub(super) branch: Option<String>,
    /// Commits before and behind the branch it follows; none when it follows no branch.
    pub(super) ahead: Option<u64>,
    pub(super) behind: Option<u64>,
    pub(super) dirty: bool,
    /// Commits that no remote branch has.
    pub(super) unpushed: u64,
    /// None before the first commit.
    pub(super) head: Option<String>,
}

/// Looks at the repository of a directory; none where there is none to look at.
pub(super) async fn look(directory: &Path) -> Option<GitState> {
    match tokio::time::timeout(LIMIT, read(directory)).await {
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
    let told = tokio::time::timeout(LIMIT, git(directory, &arguments)).await.ok()?.ok()?;
    let mut paths = told.lines().map(Into::into);
    Some(Repository { git_directory: paths.next()?, common_directory: paths.next()? })
}

async fn read(directory: &Path) -> Result<GitState, GitError> {
    let status = ["status", "--porcelain=v2", "--branch", "--ignore-submodules=dirty"];
    let mut state = parse(&git(directory, &status).await?);
    if state.head.is_some() {
        let count = git(directory, &["rev-list", "--count", "HEAD", "--not", "--remotes"]).await?;
        state.unpushed = count.trim().parse().unwrap_or_default();
    }
    Ok(state)
}

/// Headers begin with `#`; every other line is something not committed.
fn parse(status: &str) -> GitState {
    let mut state = GitState::default();
    for line in status.lines() {
        let Some(header) = line.strip_prefix("# ") else {
            state.dirty = true;
            continue;
        };
        match header.split_once(' ') {
            Some(("branch.oid", oid)) if oid != "(initial)" => state.head = Some(oid.to_owned()),
            Some(("branch.head", name)) if name != "(detached)" => state.branch = Some(name.to_owned()),
            Some(("branch.ab", counts)) => (state.ahead, state.behind) = ahead_and_behind(counts),
            Some(_) | None => {}
        }
    }
    state
}

fn ahead_and_behind(counts: &str) -> (Option<u64>, Option<u64>) {
    let mut counts = counts.split(' ').map(|count| count.get(1..)?.parse().ok());
    (counts.next().flatten(), counts.next().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_that_follows_another_is_counted_against_it() {
        let status = "# branch.oid 1f2e\n# branch.head fleet/ann\n# branch.upstream origin/main\n\
            # branch.ab +2 -1\n? notes.txt\n";
        let expected = GitState {
            branch: Some("fleet/ann".into()),
            ahead: Some(2),
            behind: Some(1),
            dirty: true,
            unpushed: 0,
            head: Some("1f2e".into()),
        };
        assert_eq!(parse(status), expected);
    }

    #[test]
    fn what_is_not_there_is_none() {
        let fresh = GitState { branch: Some("main".into()), ..GitState::default() };
        assert_eq!(parse("# branch.oid (initial)\n# branch.head main\n"), fresh);
        let detached = GitState { head: Some("1f2e".into()), ..GitState::default() };
        assert_eq!(parse("# branch.oid 1f2e\n# branch.head (detached)\n"), detached);
    }
}
