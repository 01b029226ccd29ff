//! Reads the state of a working directory: the branch, and how much work is not saved elsewhere yet.

use std::path::Path;

use serde::Serialize;

use super::{GitError, run};

/// The commands to run; those after the first succeed only once there is a commit.
pub(crate) const STATUS: [&str; 4] = ["status", "--porcelain=v2", "--branch", "--ignore-submodules=dirty"];
/// Counts unpushed commits. The caller's repository, which an agent of `here` sees as the remote `fleet-here`, does
/// not count as a remote. The start commit is appended if known; a start commit that no longer exists is ignored.
pub(crate) const UNPUSHED: [&str; 7] =
    ["rev-list", "--count", "--ignore-missing", "HEAD", "--not", "--exclude=fleet-here/*", "--remotes"];
/// The third command, if the start commit is known.
fn since(base: &str) -> [String; 4] {
    ["rev-list", "--count", "--left-right", &format!("{base}...HEAD")].map(str::to_owned)
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct GitState {
    /// None while no branch is checked out.
    #[serde(skip)]
    pub(crate) branch: Option<String>,
    /// Commits ahead of and behind the start commit, or the upstream branch if that is unknown. None without an
    /// upstream.
    pub(crate) ahead: Option<u64>,
    pub(crate) behind: Option<u64>,
    pub(crate) dirty: bool,
    /// Commits since the start that are on no remote branch.
    pub(crate) unpushed: u64,
    /// None before the first commit.
    pub(crate) head: Option<String>,
}

impl GitState {
    /// Reads the state of a directory in which work began at this commit.
    pub(crate) async fn read(directory: &Path, base: Option<&str>) -> Result<Self, GitError> {
        let state = Self::of_status(&run(directory, &STATUS).await?);
        if state.head.is_none() {
            return Ok(state);
        }
        let unpushed: Vec<&str> = UNPUSHED.into_iter().chain(base).collect();
        let state = state.with_unpushed(&run(directory, &unpushed).await?);
        let Some(base) = base else { return Ok(state) };
        // An agent may have recreated its repository without that commit.
        let counts = run(directory, &since(base).each_ref().map(String::as_str)).await.unwrap_or_default();
        Ok(state.with_counts(&counts))
    }

    /// Parses the first command's output; headers begin with `#`, every other line is an uncommitted change.
    pub(crate) fn of_status(status: &str) -> Self {
        let mut state = Self::default();
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

    /// Adds the second command's output.
    fn with_unpushed(self, count: &str) -> Self {
        Self { unpushed: count.trim().parse().unwrap_or_default(), ..self }
    }

    /// Adds the third command's output: the missing and the added commits.
    fn with_counts(self, counts: &str) -> Self {
        let mut numbers = counts.split_whitespace().map(|count| count.parse().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(behind), Some(ahead)) => Self { ahead: Some(ahead), behind: Some(behind), ..self },
            (Some(_) | None, _) => self,
        }
    }
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
        assert_eq!(GitState::of_status(status), expected);
    }

    #[test]
    fn the_start_counts_before_the_branch_that_is_followed() {
        let followed = GitState::of_status("# branch.oid 1f2e\n# branch.ab +2 -1\n");
        let counted = GitState { ahead: Some(5), behind: Some(0), ..followed.clone() };
        assert_eq!(followed.clone().with_counts("0\t5\n"), counted);
        assert_eq!(followed.clone().with_counts(""), followed);
    }

    #[test]
    fn what_is_not_there_is_none() {
        let fresh = GitState { branch: Some("main".into()), ..GitState::default() };
        assert_eq!(GitState::of_status("# branch.oid (initial)\n# branch.head main\n"), fresh);
        let detached = GitState { head: Some("1f2e".into()), ..GitState::default() };
        assert_eq!(GitState::of_status("# branch.oid 1f2e\n# branch.head (detached)\n"), detached);
    }
}
