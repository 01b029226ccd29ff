//! The data directory: private, locked by one process at a time, with the address of its server.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::BootError;
use crate::cli::ServerFile;
use crate::files::{self, Durability};
use crate::process::is_running;

const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A data directory that is locked until this is dropped.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// The kernel releases the lock with the open file, also after a kill.
    _lock: File,
}

impl DataDir {
    pub fn hold(path: &Path) -> Result<Self, BootError> {
        let failed = |source| BootError::DataDir { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let lock = path.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock)
            .map_err(failed)?;
        if !locked_in_time(&file, path) {
            return Err(held(path));
        }
        let dir = Self { path: path.to_owned(), _lock: file };
        // A killed server leaves its file: clients would use a dead address.
        dir.withdraw();
        dir.sweep();
        Ok(dir)
    }

    /// Removes drafts of a killed server: they may contain a token or a copy of the database.
    fn sweep(&self) {
        for directory in [self.path.clone(), self.file("backups"), self.file("coder")] {
            if let Err(error) = files::sweep(&directory)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(
                    %error, directory = %directory.display(),
                    "unfinished files could not be removed"
                );
            }
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Publishes the address of the server for other processes.
    pub fn announce(&self, server: &ServerFile) -> Result<(), BootError> {
        let failed = |source| BootError::DataDir { path: self.path.clone(), source };
        let text =
            serde_json::to_string_pretty(server).map_err(|error| failed(std::io::Error::other(error)))?;
        files::replace(&self.file("server.json"), text.as_bytes(), Durability::Cached).map_err(failed)
    }

    pub fn withdraw(&self) {
        if let Err(error) = std::fs::remove_file(self.file("server.json"))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "server.json could not be removed");
        }
    }
}

/// The published address of the running server of a data directory, if there is one.
pub fn server_of(data_dir: &Path) -> Option<ServerFile> {
    let text = std::fs::read_to_string(data_dir.join("server.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// Whether a process holds the lock. This may change at any time.
pub fn is_held(data_dir: &Path) -> bool {
    let Ok(file) = OpenOptions::new().write(true).open(data_dir.join("lock")) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
}

/// A server that was killed while it spawned a process leaves the lock to that process until its exec. A running
/// server is not awaited: after it stops, no other is wanted.
fn locked_in_time(file: &File, data_dir: &Path) -> bool {
    for _ in 0..LOCK_TRIES {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if server_of(data_dir).is_some_and(|server| is_running(server.pid)) {
            return false;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    false
}

fn held(path: &Path) -> BootError {
    let by = match (server_of(path), coder_of(path)) {
        (Some(server), _) => {
            format!("process {} serving {}; 'fleet-mcp down' stops it", server.pid, server.url)
        }
        (None, Some(pid)) => format!("process {pid}, the embedded Coder; Ctrl-C or SIGTERM stops it"),
        (None, None) => "a process that is starting or stopping; try again in a moment".to_owned(),
    };
    BootError::Held { path: path.to_owned(), by }
}

/// The process of an embedded Coder that runs here, alone or before its server.
fn coder_of(data_dir: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(data_dir.join("coder.json")).ok()?;
    let pid = serde_json::from_str::<serde_json::Value>(&text).ok()?["pid"].as_u64()?;
    let pid = u32::try_from(pid).ok()?;
    // A killed process leaves its file.
    is_running(pid).then_some(pid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_a_killed_server_was_writing_is_removed_and_all_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("backups")).unwrap();
        let (left, kept) = ([".fleet-1", "backups/.fleet-2"], ["operator.token", "backups/fleet.db"]);
        for name in left.iter().chain(&kept) {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let _held = DataDir::hold(dir.path()).unwrap();
        assert_eq!(left.map(|name| dir.path().join(name).exists()), [false, false]);
        assert_eq!(kept.map(|name| dir.path().join(name).exists()), [true, true]);
    }

    #[test]
    fn one_process_holds_a_directory_and_the_next_learns_who() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let first = DataDir::hold(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let server = ServerFile {
            url: "http://127.0.0.1:9".parse().unwrap(),
            mcp_url: "http://127.0.0.1:9/mcp".parse().unwrap(),
            pid: 42,
            version: "1".into(),
        };
        first.announce(&server).unwrap();
        assert_eq!(server_of(&path), Some(server));
        assert!(is_held(&path));
        let error = DataDir::hold(&path).unwrap_err().to_string();
        let expected = "is held by process 42 serving http://127.0.0.1:9/; 'fleet-mcp down' stops it";
        assert!(error.ends_with(expected), "{error}");
        drop(first);
        assert!(!is_held(&path));
        let second = DataDir::hold(&path).unwrap();
        assert_eq!(server_of(&second.path), None);
    }
}
