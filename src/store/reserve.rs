//! Reserved disk space: a full disk refuses new work, while calls that end work can still be recorded.
//!
//! The reserve is an empty file of fixed size. A call that ends work removes it if the disk is full, which leaves
//! room for many such rows; nothing new is accepted until the reserve exists again.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::Store;
use super::error::StoreError;

/// Enough for the database's log to grow until it is checkpointed and restarted, twice.
const BYTES: u64 = 8 << 20;
/// A disk with less room than this counts as full; the reserve leaves at least as much free.
const SPARE: u64 = 4 << 20;

#[derive(Debug)]
pub(super) struct Reserve {
    file: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    /// Released, or never created: there is no room for it.
    Gone,
    /// This file system cannot allocate space, so only the database itself reports a full disk.
    Unsupported,
}

impl Store {
    /// Refuses new work until the reserve exists again.
    pub fn room_for_new_work(&self) -> Result<(), StoreError> {
        match self.reserve.keep() {
            State::Held | State::Unsupported => Ok(()),
            State::Gone => Err(StoreError::Full),
        }
    }

    /// Releases the reserve for calls that end work, if the disk is full.
    pub fn room_for_endings(&self) {
        self.reserve.release();
    }
}

impl Reserve {
    pub(super) fn beside(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push("-reserve");
        let reserve = Self { file: name.into(), state: Mutex::new(State::Gone) };
        reserve.keep();
        reserve
    }

    /// Creates the reserve if there is room.
    fn keep(&self) -> State {
        let mut state = self.state();
        if *state == State::Gone {
            *state = self.make().unwrap_or_else(|error| {
                tracing::warn!(%error, "no disk space can be reserved for cancels, stops and deletes");
                State::Unsupported
            });
        }
        *state
    }

    fn make(&self) -> io::Result<State> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.file)?;
        if file.metadata()?.len() == BYTES {
            return Ok(State::Held);
        }
        let made = if self.free()? < BYTES + SPARE {
            Err(rustix::io::Errno::NOSPC)
        } else {
            fallocate(&file, FallocateFlags::empty(), 0, BYTES)
        };
        match made {
            Ok(()) => Ok(State::Held),
            Err(error) => {
                std::fs::remove_file(&self.file)?;
                if error == rustix::io::Errno::NOSPC { Ok(State::Gone) } else { Err(error.into()) }
            }
        }
    }

    fn release(&self) {
        let mut state = self.state();
        if *state != State::Held || self.free().is_ok_and(|free| free >= SPARE) {
            return;
        }
        match std::fs::remove_file(&self.file) {
            Ok(()) => {
                *state = State::Gone;
                tracing::warn!(
                    "the disk of the data directory is full; cancel, stop and delete use the reserved space"
                );
            }
            Err(error) => tracing::error!(%error, "the reserved disk space cannot be used"),
        }
    }

    /// The space available to us, in bytes.
    fn free(&self) -> io::Result<u64> {
        let disk = statvfs(self.file.parent().unwrap_or(Path::new("/")))?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_room_it_is_kept_by_its_owner_alone_and_taken_over_by_the_next_process() {
        use std::os::unix::fs::MetadataExt;

        let dir = tempfile::tempdir().unwrap();
        for _process in 0..2 {
            let reserve = Reserve::beside(&dir.path().join("fleet.db"));
            reserve.release();
            assert_eq!(reserve.keep(), State::Held);
            let file = std::fs::metadata(dir.path().join("fleet.db-reserve")).unwrap();
            assert_eq!((file.len(), file.mode() & 0o777), (BYTES, 0o600));
            assert!(file.blocks() * 512 >= BYTES, "it takes its place on the disk");
        }
    }
}
