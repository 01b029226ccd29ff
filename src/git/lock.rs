//! Lock files of git, removed only while they are the file that was found.
//!
//! Git removes its locks when it is terminated by a signal it handles, but not when it is killed, and not between
//! creating a lock and registering it. Every later git would be refused for ever.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lock {
    path: PathBuf,
    inode: u64,
    made: SystemTime,
}

impl Lock {
    /// None unless there is a regular file.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        let found = path.symlink_metadata().ok().filter(Metadata::is_file)?;
        Some(Self { path, inode: found.ino(), made: found.modified().ok()? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it existed before that time.
    pub(crate) fn is_before(&self, time: SystemTime) -> bool {
        self.made < time
    }

    pub(crate) fn is_since(&self, time: SystemTime) -> bool {
        self.made >= time
    }

    /// Returns whether it was removed. Another lock in its place has an owner.
    pub(crate) fn remove(&self) -> bool {
        let now = Self::at(self.path.clone());
        now.as_ref() == Some(self) && std::fs::remove_file(&self.path).is_ok()
    }
}
