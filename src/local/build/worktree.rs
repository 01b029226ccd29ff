//! Removes the git worktree of a workspace that an earlier version made in its caller's repository.
//!
//! Never uses `git worktree prune`: inside the enclosure the worktrees of other agents look deleted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::branch::Branch;
use super::git::Git;
use super::with_deadline;
use super::work::Work;
use crate::git::quiet::Reach;
use crate::local::LocalError;

/// Forgets the worktree of this workspace, whose directory is removed, and another one that has its branch checked
/// out in a removed directory.
pub(super) async fn forget(work: &Work, of: &Path) -> Result<(), LocalError> {
    let git = Git::of(work, &[], Reach::Local);
    let listing = git.run(of, &["worktree", "list", "--porcelain"], "list the worktrees").await?;
    let branch = Branch::of(&work.workspace).head;
    let own = own_path(work);
    let is_ours = |entry: &WorktreeEntry| entry.path == own || entry.branch.as_ref() == Some(&branch);
    for entry in entries(&listing).into_iter().filter(is_ours) {
        if is_there(&entry.path).await? {
            continue;
        }
        // The first `--force` is for the missing directory, the second for the lock.
        let arguments = ["worktree", "remove", "--force", "--force", "--end-of-options"].map(OsString::from);
        let arguments = [arguments.as_slice(), &[entry.path.into()]].concat();
        git.run(of, &arguments, "remove the record of the worktree").await?;
    }
    Ok(())
}

/// Agents of those versions could write any path there.
async fn is_there(path: &Path) -> Result<bool, LocalError> {
    let asked = path.to_owned();
    with_deadline(path, move || Ok(asked.symlink_metadata().is_ok())).await
}

/// As git records it: with symbolic links resolved.
fn own_path(work: &Work) -> PathBuf {
    let root = &work.dirs.root;
    let folder = root.parent().and_then(|parent| parent.canonicalize().ok());
    folder.unwrap_or_default().join(root.file_name().unwrap_or_default()).join("repo")
}

/// One worktree of a repository.
#[derive(Debug, PartialEq, Eq)]
struct WorktreeEntry {
    path: PathBuf,
    branch: Option<String>,
}

fn entries(listing: &str) -> Vec<WorktreeEntry> {
    let entry = |text: &str| {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        Some(WorktreeEntry { path: value("worktree ")?.into(), branch: value("branch ").map(str::to_owned) })
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
            WorktreeEntry { path: "/a b".into(), branch: Some("refs/heads/main".to_owned()) },
            WorktreeEntry { path: "/c".into(), branch: None },
        ];
        assert_eq!(entries(listing), expected);
    }
}
