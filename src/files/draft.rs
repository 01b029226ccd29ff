//! A file that is written under a temporary name and gets its final name in one step.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use uuid::Uuid;

use super::Durability;
use super::beneath::Directory;

const PREFIX: &str = ".fleet-";
const MODE: Mode = Mode::from_raw_mode(0o600);

/// A new file that only its owner can read. It is removed if it is dropped before it is placed.
#[derive(Debug)]
pub(crate) struct Draft {
    directory: Directory,
    name: OsString,
    /// Its temporary name. It is unguessable, so no other process can have put anything there.
    fresh: OsString,
    file: File,
    is_placed: bool,
}

impl Draft {
    /// Creates a file in the directory of this path.
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Self::within(Directory::open_linked(folder_of(path))?, name)
    }

    pub(super) fn within(directory: Directory, name: &OsStr) -> io::Result<Self> {
        let fresh = fresh_name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&directory, &fresh, flags, MODE)?);
        Ok(Self { directory, name: name.to_owned(), fresh, file, is_placed: false })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Its path beside this one, for a program that writes it.
    pub(crate) fn path_beside(&self, path: &Path) -> PathBuf {
        path.with_file_name(&self.fresh)
    }

    /// Whether it has its final name. If so, an error of [`Self::place`] only means that a loss of power may undo
    /// it.
    pub(crate) fn is_placed(&self) -> bool {
        self.is_placed
    }

    /// Gives it its final name; replaces any file that has it.
    pub(crate) fn place(&mut self, durability: Durability) -> io::Result<()> {
        if durability == Durability::Synced {
            self.file.sync_all()?;
        }
        renameat(&self.directory, &self.fresh, &self.directory, &self.name)?;
        self.is_placed = true;
        match durability {
            Durability::Synced => Ok(rustix::fs::fsync(&self.directory)?),
            Durability::Cached => Ok(()),
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            // A draft that cannot be removed is swept later, or removed with its directory.
            let _gone = unlinkat(&self.directory, &self.fresh, AtFlags::empty());
        }
    }
}

/// Whether this is a file without its final name.
fn is_draft(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// Removes drafts of a killed process in a directory that only this process writes to.
pub(crate) fn sweep(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if is_draft(&path) {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// A name that no file in a directory has.
pub(super) fn fresh_name() -> OsString {
    format!("{PREFIX}{}", Uuid::new_v4().simple()).into()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::files::replace;

    fn names(directory: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_is_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        for (text, durability) in [("one", Durability::Synced), ("two", Durability::Cached)] {
            replace(&path, text.as_bytes(), durability).unwrap();
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), mode), (text, 0o600));
        }
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_draft_that_is_not_placed_changes_nothing_and_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::create_dir_all(path.join("full")).unwrap();
        let mut draft = Draft::beside(&path).unwrap();
        draft.file().write_all(b"half").unwrap();
        assert_eq!(std::fs::read(draft.path_beside(&path)).unwrap(), b"half");
        assert_eq!(draft.place(Durability::Cached).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        drop(draft);
        assert_eq!(names(directory.path()), ["a"]);
    }

    #[test]
    fn a_sweep_removes_drafts_alone() {
        let directory = tempfile::tempdir().unwrap();
        for name in [fresh_name(), "b.bundle".into()] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        sweep(directory.path()).unwrap();
        assert_eq!(names(directory.path()), ["b.bundle"]);
    }
}
