//! Worktrees in somebody's repository: ours come and go, those of others stay, also stale ones.
//!
//! `git worktree prune` is never asked: behind the walls the worktrees of other agents look as if they were gone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::git::Git;
use super::work::Work;
use crate::local::LocalError;
use crate::local::record::Workspace;

const NO_COMMIT: [&str; 2] = ["not a git repository", "Needed a single revision"];

/// Adds a worktree on the workspace's own branch.
pub(super) async fn add(work: &Work, of: &Path) -> Result<(), LocalError> {
    let git = Git::of(work, &[&work.place.root]);
    let head =
        git.run(of, &["rev-parse", "--verify", "HEAD^{commit}"], &format!("use {}", of.display())).await;
    let head = head.map_err(|error| explained(error, of))?;
    forget(work, of).await?;
    let branch = branch_of(&work.workspace);
    let known = git.run(of, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")], "").await;
    // Locked, because a prune by another agent, to whom ours is hidden, would take it for gone.
    let mut arguments: Vec<OsString> = ["worktree", "add", "--quiet", "--lock"].map(Into::into).to_vec();
    let from = match known {
        // The branch of an earlier agent of that name: its work goes on.
        Ok(_) => branch,
        Err(_) => {
            arguments.extend(["-b".into(), branch.into()]);
            head
        }
    };
    arguments.extend(["--end-of-options".into(), OsString::from(&work.place.repo), from.into()]);
    git.run(of, &arguments, "add a worktree").await.map(drop)
}

/// Forgets the worktree of this workspace, whose directory is gone, and one that had its branch in a directory
/// that is gone too.
pub(super) async fn forget(work: &Work, of: &Path) -> Result<(), LocalError> {
    let git = Git::of(work, &[]);
    let listing = git.run(of, &["worktree", "list", "--porcelain"], "list the worktrees").await?;
    let branch = format!("refs/heads/{}", branch_of(&work.workspace));
    let own = own_path(work);
    let is_ours = |entry: &Entry| entry.path == own || entry.branch.as_ref() == Some(&branch);
    for entry in entries(&listing).into_iter().filter(|entry| is_ours(entry) && !entry.path.exists()) {
        // Once for the missing directory, once for the lock.
        let arguments = ["worktree", "remove", "--force", "--force", "--end-of-options"].map(OsString::from);
        let arguments = [arguments.as_slice(), &[entry.path.into()]].concat();
        git.run(of, &arguments, "forget the worktree").await?;
    }
    Ok(())
}

/// Git's words for a directory without a repository, and for one without a commit, become the remedy; whatever
/// else it says, such as that the directory is somebody else's, has its own.
fn explained(error: LocalError, of: &Path) -> LocalError {
    match error {
        LocalError::GitRefused { output, .. } if NO_COMMIT.iter().any(|words| output.contains(words)) => {
            LocalError::NotARepository { path: of.to_owned() }
        }
        other => other,
    }
}

pub(super) fn branch_of(workspace: &Workspace) -> String {
    format!("fleet/{}", workspace.name)
}

/// As git writes it down: without symbolic links on the way.
fn own_path(work: &Work) -> PathBuf {
    let root = &work.place.root;
    let folder = root.parent().and_then(|parent| parent.canonicalize().ok());
    folder.unwrap_or_default().join(root.file_name().unwrap_or_default()).join("repo")
}

/// One worktree of a repository.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    path: PathBuf,
    branch: Option<String>,
}

fn entries(listing: &str) -> Vec<Entry> {
    let entry = |text: &str| {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        Some(Entry { path: value("worktree ")?.into(), branch: value("branch ").map(str::to_owned) })
    };
    listing.split("\n\n").filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worktree_is_known_by_its_path_and_branch() {
        let listing =
            "worktree /a b\nHEAD 1\nbranch refs/heads/main\n\nworktree /c\nHEAD 2\ndetached\nlocked x\n";
        let expected = [
            Entry { path: "/a b".into(), branch: Some("refs/heads/main".to_owned()) },
            Entry { path: "/c".into(), branch: None },
        ];
        assert_eq!(entries(listing), expected);
    }

    #[test]
    fn only_a_directory_without_a_commit_is_told_to_make_one() {
        let told = |output: &str| {
            let error = LocalError::GitRefused { doing: "use /a".to_owned(), output: output.to_owned() };
            explained(error, Path::new("/a")).to_string()
        };
        let remedy = "/a is not a git repository: run 'git init' and make a first commit there";
        assert_eq!(told("fatal: not a git repository (or any of the parent directories): .git"), remedy);
        assert_eq!(told("fatal: Needed a single revision"), remedy);
        let dubious = "fatal: detected dubious ownership in repository at '/a'; To add an exception for this \
                       directory, call:; git config --global --add safe.directory /a";
        assert_eq!(told(dubious), format!("git could not use /a: {dubious}"));
    }
}
