//! Changes refs of the caller's repository atomically; removes locks that a killed git has left.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};

use super::blocking;
use super::git::Git;
use crate::git::lock::Lock;
use crate::local::{LocalError, LocalLimits};
use crate::process::runs_in;

const PAUSE: Duration = Duration::from_millis(100);
/// Git locks all packed refs while it rewrites them, without visible progress. A lock older than this has no owner,
/// unless a git process is at work in the repository.
const STALE_PACKED: Duration = Duration::from_secs(60);
/// Only locks of refs that this server writes are removed.
const OURS: [&str; 2] = ["refs/fleet/", "refs/heads/fleet/"];

/// Runs `update-ref --stdin` with these lines. `options` precede the command.
pub(crate) async fn change(
    git: &Git,
    directory: &Path,
    options: &[&str],
    changes: &str,
    doing: &str,
) -> Result<(), LocalError> {
    if changes.is_empty() {
        return Ok(());
    }
    let deadline = Instant::now() + git.limits().lock_wait;
    let arguments = [options, &["update-ref", "--stdin"]].concat();
    let names: Vec<&str> = changes.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    loop {
        match git.feed(directory, &arguments, changes, doing).await {
            Err(error) if is_locked(&error) && Instant::now() < deadline => {}
            result => return result.map(drop),
        }
        let paths = lock_paths(git, directory, options, &names).await?;
        free_until(deadline, paths, git.limits().stale_lock).await?;
        free_packed(git_path(git, directory, options, "packed-refs.lock").await?).await?;
        sleep(PAUSE).await;
    }
}

/// Removes ownerless locks of these refs, for a command that takes the locks itself.
pub(super) async fn free(git: &Git, directory: &Path, names: &[&str]) -> Result<(), LocalError> {
    let paths = lock_paths(git, directory, &[], names).await?;
    let LocalLimits { lock_wait, stale_lock, .. } = git.limits();
    free_until(Instant::now() + *lock_wait, paths, *stale_lock).await
}

fn is_locked(error: &LocalError) -> bool {
    matches!(error, LocalError::GitRefused { output, .. } if output.contains(".lock': File exists"))
}

/// The lock files of those refs that are ours.
async fn lock_paths(
    git: &Git,
    directory: &Path,
    options: &[&str],
    names: &[&str],
) -> Result<Vec<PathBuf>, LocalError> {
    let mut paths = Vec::new();
    for name in names.iter().filter(|name| OURS.iter().any(|prefix| name.starts_with(prefix))) {
        paths.push(git_path(git, directory, options, &format!("{name}.lock")).await?);
    }
    Ok(paths)
}

async fn git_path(git: &Git, directory: &Path, options: &[&str], name: &str) -> Result<PathBuf, LocalError> {
    let asked = [options, &["rev-parse", "--path-format=absolute", "--git-path", name]].concat();
    Ok(git.run(directory, &asked, "find the lock of a ref").await?.into())
}

async fn free_packed(path: PathBuf) -> Result<(), LocalError> {
    let freeing = move || {
        let since = SystemTime::now() - STALE_PACKED;
        let git_directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        // People work in the parent directory.
        let repository = git_directory.parent().unwrap_or(&git_directory);
        let lock = Lock::at(path).filter(|lock| lock.is_before(since));
        if lock.is_some() && !runs_in("git", &[repository]).unwrap_or(true) {
            remove(lock.as_slice());
        }
        Ok(())
    };
    blocking(freeing).await
}

/// Returns once all locks are gone, or at the deadline. A lock that is unchanged for `stale` is removed.
async fn free_until(deadline: Instant, paths: Vec<PathBuf>, stale: Duration) -> Result<(), LocalError> {
    let (mut since, mut known) = (Instant::now(), found(&paths).await?);
    while !known.is_empty() && Instant::now() < deadline {
        sleep(PAUSE).await;
        let now = found(&paths).await?;
        if now != known {
            (since, known) = (Instant::now(), now);
        } else if since.elapsed() >= stale {
            let removing = move || {
                remove(&known);
                Ok(())
            };
            return blocking(removing).await;
        }
    }
    Ok(())
}

async fn found(paths: &[PathBuf]) -> Result<Vec<Lock>, LocalError> {
    let paths = paths.to_vec();
    blocking(move || Ok(paths.into_iter().filter_map(Lock::at).collect())).await
}

fn remove(locks: &[Lock]) {
    for lock in locks.iter().filter(|lock| lock.remove()) {
        tracing::info!(lock = %lock.path().display(), "removed a lock that a killed git had left");
    }
}
