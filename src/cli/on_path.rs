//! Finds a program as a shell would: in the directories of the PATH, and only if it may be run.

use std::ffi::OsStr;
use std::path::PathBuf;

/// The first program of this name in these directories. An empty part of the list is no directory to us.
pub fn on_path(program: &str, path: &OsStr) -> Option<PathBuf> {
    let directories = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    directories
        .map(|directory| directory.join(program))
        .find(|file| file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}
