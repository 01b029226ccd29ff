//! Lock files of git: each as it was found, and removed only while it is still that very file.
//!
//! Git takes its locks away when it is asked to end, but not when it is killed, and not in the moment between making a
//! lock and noting it down. Every later git would be refused for ever.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Debug, Clone)]
pub(crate) struct Lock {
    path: PathBuf,
    found: Metadata,
}

impl Lock {
    /// None unless a regular file is there.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        let found = path.symlink_metadata().ok().filter(Metadata::is_file)?;
        Some(Self { path, found })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_since(&self, time: SystemTime) -> bool {
        self.found.modified().is_ok_and(|made| made >= time)
    }

    /// Is that very file still there? Another one in its place has an owner.
    pub(crate) fn is_there(&self) -> bool {
        let identity = |file: &Metadata| (file.ino(), file.mtime(), file.mtime_nsec());
        self.path.symlink_metadata().is_ok_and(|now| identity(&now) == identity(&self.found))
    }

    /// Says whether it was removed.
    pub(crate) fn remove(&self) -> bool {
        self.is_there() && std::fs::remove_file(&self.path).is_ok()
    }
}
