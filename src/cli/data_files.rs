//! Reads files of the data directory: all from one open directory, regular files only, no links followed.
//!
//! With a link to another `server.json`, the real token would be sent to an address that another process chose.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

use super::error::CliError;

/// More than any of these files needs.
const LIMIT: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct DataFiles {
    path: PathBuf,
    /// None if the directory does not exist.
    directory: Option<File>,
}

impl DataFiles {
    pub(super) fn open(path: &Path) -> Result<Self, CliError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match open(path, flags, Mode::empty()) {
            Ok(directory) => Some(File::from(directory)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(CliError::File { path: path.to_owned(), source: error.into() }),
        };
        Ok(Self { path: path.to_owned(), directory })
    }

    /// None if the file does not exist.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, CliError> {
        let Some(directory) = &self.directory else { return Ok(None) };
        match read_regular(directory, name) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(CliError::File { path: self.path.join(name), source }),
        }
    }
}

fn read_regular(directory: &File, name: &str) -> io::Result<String> {
    let not_regular = || io::Error::other("it is not a regular file");
    // Opening a FIFO would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(not_regular()),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(not_regular());
    }
    let mut text = String::new();
    file.take(LIMIT).read_to_string(&mut text)?;
    Ok(text)
}
