//! Frees the repository from locks that git left behind when a run was killed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};

use super::git::ask;
use crate::git::lock::Lock;

/// The clock of files runs behind ours by less than this.
const CLOCKS_DIFFER: Duration = Duration::from_millis(100);

/// Removes the locks that a run begun at this time has left in the repository of a directory. No process of the
/// run may be alive any more. Whatever somebody else may still hold is left alone.
pub(super) async fn free(directory: &Path, since: DateTime<Utc>) {
    let Some(repository) = Repository::of(directory).await else { return };
    let since = SystemTime::from(since) - CLOCKS_DIFFER;
    let freed = tokio::task::spawn_blocking(move || repository.free(since)).await.unwrap_or_default();
    for lock in freed {
        tracing::info!(lock = %lock.display(), "took away a lock that a killed git had left");
    }
}

/// The parts of a repository in which only git commands of one working directory take locks.
struct Repository {
    directory: PathBuf,
    git_dir: PathBuf,
    /// The same, unless the directory is one of several that share a repository.
    common_dir: PathBuf,
    branch: Option<String>,
}

impl Repository {
    async fn of(directory: &Path) -> Option<Self> {
        let asked = ["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"];
        let told = ask(directory, &asked).await?;
        let (git_dir, common_dir) = told.trim_end().split_once('\n')?;
        let branch = ask(directory, &["symbolic-ref", "--quiet", "HEAD"]).await;
        Some(Self {
            directory: directory.canonicalize().ok()?,
            git_dir: git_dir.into(),
            common_dir: common_dir.into(),
            branch: branch.map(|branch| branch.trim_end().to_owned()),
        })
    }

    fn free(&self, since: SystemTime) -> Vec<PathBuf> {
        let locks: Vec<Lock> = self.locks().into_iter().filter(|lock| lock.is_since(since)).collect();
        if locks.is_empty() || self.is_in_use() {
            return Vec::new();
        }
        locks.iter().filter(|lock| lock.remove()).map(|lock| lock.path().to_owned()).collect()
    }

    /// A branch is checked out in one directory only, so its lock is that directory's as well.
    fn locks(&self) -> Vec<Lock> {
        let mut locks = locks_in(&self.git_dir);
        if self.common_dir == self.git_dir {
            locks.extend(locks_below(&self.git_dir.join("refs")));
        } else if let Some(branch) = &self.branch {
            locks.extend(Lock::at(self.common_dir.join(format!("{branch}.lock"))));
        }
        locks
    }

    /// Does a git that lives work here? It may hold a lock without having the file open.
    fn is_in_use(&self) -> bool {
        let Ok(processes) = std::fs::read_dir("/proc") else { return true };
        processes.flatten().any(|process| {
            let is_git =
                std::fs::read(process.path().join("comm")).is_ok_and(|name| name.starts_with(b"git"));
            is_git && std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| self.contains(&cwd))
        })
    }

    fn contains(&self, path: &Path) -> bool {
        [&self.directory, &self.git_dir].into_iter().any(|root| path.starts_with(root))
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
