//! Lock files of git: each as it was found, and removed only while it is still that very file.
//!
//! Git takes its locks away when it is asked to end, but not when it is killed, and not in the moment between making a
//! lock and noting it down. Every later git would be refused for ever.

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
    /// None unless a regular file is there.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        let found = path.symlink_metadata().ok().filter(Metadata::is_file)?;
        Some(Self { path, inode: found.ino(), made: found.modified().ok()? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// At this time it was there already.
    pub(crate) fn is_before(&self, time: SystemTime) -> bool {
        self.made < time
    }

    pub(crate) fn is_since(&self, time: SystemTime) -> bool {
        self.made >= time
    }

    /// Says whether it was removed. Another one in its place has an owner.
    pub(crate) fn remove(&self) -> bool {
        let now = Self::at(self.path.clone());
        now.as_ref() == Some(self) && std::fs::remove_file(&self.path).is_ok()
    }
}
