//! Removes git's locks from the repository after a run was killed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use super::git;
use crate::git::Repository;
use crate::git::lock::Lock;
use crate::process::runs_in;

/// The clock of file systems lags ours by less than this.
const CLOCKS_DIFFER: Duration = Duration::from_millis(100);

/// Removes the locks that a run begun at this time has left in the repository of a directory. All processes of the
/// run must have ended. Locks that another process may hold are kept.
pub(super) async fn free(directory: &Path, since: DateTime<Utc>) {
    let Some(checkout) = Checkout::of(directory).await else { return };
    let since = SystemTime::from(since) - CLOCKS_DIFFER;
    let freed = tokio::task::spawn_blocking(move || checkout.free(since)).await.unwrap_or_default();
    for lock in freed {
        tracing::info!(lock = %lock.display(), "removed a lock that a killed git had left");
    }
}

/// A working directory and the parts of its repository in which only its own git commands take locks.
struct Checkout {
    directory: PathBuf,
    repository: Repository,
    branch: Option<String>,
}

impl Checkout {
    async fn of(directory: &Path) -> Option<Self> {
        let repository = git::repository(directory).await?;
        let branch = git::branch(directory).await;
        Some(Self { directory: directory.canonicalize().ok()?, repository, branch })
    }

    fn free(&self, since: SystemTime) -> Vec<PathBuf> {
        let locks: Vec<Lock> = self.locks().into_iter().filter(|lock| lock.is_since(since)).collect();
        if locks.is_empty() || self.is_in_use() {
            return Vec::new();
        }
        locks.iter().filter(|lock| lock.remove()).map(|lock| lock.path().to_owned()).collect()
    }

    /// A branch is checked out in one directory only, so its lock belongs to that directory.
    fn locks(&self) -> Vec<Lock> {
        let Repository { git_directory, common_directory } = &self.repository;
        let mut locks = locks_in(git_directory);
        if common_directory == git_directory {
            locks.extend(locks_below(&git_directory.join("refs")));
        } else if let Some(branch) = &self.branch {
            locks.extend(Lock::at(common_directory.join(format!("{branch}.lock"))));
        }
        locks
    }

    /// Whether a running git works here. It may hold a lock without having the file open. Also true if processes
    /// cannot be inspected.
    fn is_in_use(&self) -> bool {
        runs_in("git", &[&self.directory, &self.repository.git_directory]).unwrap_or(true)
    }
}

fn locks_in(directory: &Path) -> Vec<Lock> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "lock")).filter_map(Lock::at).collect()
}

fn locks_below(directory: &Path) -> Vec<Lock> {
    let mut locks = locks_in(directory);
    let Ok(entries) = std::fs::read_dir(directory) else { return locks };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    locks.extend(folders.flat_map(|folder| locks_below(&folder.path())));
    locks
}
