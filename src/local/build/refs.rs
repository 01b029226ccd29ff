//! Changes refs of the caller's repository, all of them or none, past locks that a killed git has left behind.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::blocking;
use super::git::Git;
use crate::git::lock::Lock;
use crate::local::LocalError;

/// Git holds the lock of a ref for milliseconds. One that stays the same for this long has no owner.
const STALE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);
/// Only locks of refs that this server writes are removed.
const OURS: [&str; 2] = ["refs/fleet/", "refs/heads/fleet/"];

/// Gives git these lines for `update-ref --stdin`. `options` come before the command.
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
    let arguments = [options, &["update-ref", "--stdin"]].concat();
    let mut seen: Option<(Instant, Vec<Lock>)> = None;
    loop {
        let error = match git.feed(directory, &arguments, changes, doing).await {
            Err(error) if is_locked(&error) => error,
            result => return result.map(drop),
        };
        let (since, locks) = match seen.take() {
            Some((since, locks)) if locks.iter().all(Lock::is_there) => (since, locks),
            Some(_) | None => (Instant::now(), locks(git, directory, options, changes).await?),
        };
        if locks.is_empty() {
            return Err(error);
        }
        if since.elapsed() < STALE {
            seen = Some((since, locks));
            tokio::time::sleep(PAUSE).await;
        } else {
            let is_free = blocking(move || Ok(remove(&locks))).await?;
            if !is_free {
                return Err(error);
            }
        }
    }
}

fn is_locked(error: &LocalError) -> bool {
    matches!(error, LocalError::GitRefused { output, .. } if output.contains(".lock': File exists"))
}

/// The locks that are held on refs of ours among these changes.
async fn locks(
    git: &Git,
    directory: &Path,
    options: &[&str],
    changes: &str,
) -> Result<Vec<Lock>, LocalError> {
    let names = changes.lines().filter_map(|line| line.split(' ').nth(1));
    let ours = names.filter(|name| OURS.iter().any(|prefix| name.starts_with(prefix)));
    let mut paths = Vec::new();
    for name in ours {
        let lock = format!("{name}.lock");
        let asked = [options, &["rev-parse", "--path-format=absolute", "--git-path", &lock]].concat();
        paths.push(git.run(directory, &asked, "find the lock of a ref").await?.into());
    }
    blocking(move || Ok(paths.into_iter().filter_map(Lock::at).collect())).await
}

/// Says whether none of them is left.
fn remove(locks: &[Lock]) -> bool {
    for lock in locks.iter().filter(|lock| lock.remove()) {
        tracing::info!(lock = %lock.path().display(), "removed a lock that a killed git had left");
    }
    !locks.iter().any(Lock::is_there)
}
