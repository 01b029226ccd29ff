//! Reads the bytes of the database's files beside SQLite, without releasing its locks.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Descriptors stay open for the lifetime of the store. A process that closes any descriptor of a file loses all
/// its POSIX locks on that file, including SQLite's; another process could then lock the database.
#[derive(Debug, Default)]
pub(super) struct RawFiles(Mutex<Vec<Arc<File>>>);

/// Reads a file from its beginning; several readers can be active at once.
#[derive(Debug)]
pub struct RawFile {
    file: Arc<File>,
    at: u64,
}

impl RawFiles {
    /// Opens each file once.
    pub(super) fn open(&self, path: &Path) -> io::Result<RawFile> {
        let found = std::fs::metadata(path)?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |file: &&Arc<File>| {
            file.metadata().is_ok_and(|known| (known.dev(), known.ino()) == (found.dev(), found.ino()))
        };
        if let Some(file) = kept.iter().find(is_same) {
            return Ok(RawFile { file: Arc::clone(file), at: 0 });
        }
        let file = Arc::new(File::open(path)?);
        kept.push(Arc::clone(&file));
        Ok(RawFile { file, at: 0 })
    }
}

impl Read for RawFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_read = self.file.read_at(buffer, self.at)?;
        self.at += n_read as u64;
        Ok(n_read)
    }
}
