//! The directories that no workspace may see. Each is held open, so that it is found after a rename.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A directory to hide, as the settings name it.
#[derive(Debug)]
pub(super) struct HiddenDirectory {
    name: PathBuf,
    /// The name without links, as of the start.
    true_name: PathBuf,
    /// The directory that was there at the start.
    open: Option<File>,
}

/// The current path of a directory and its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryLocation {
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
}

impl HiddenDirectory {
    pub(super) fn new(name: PathBuf) -> Self {
        let true_name = name.canonicalize().unwrap_or_else(|_| name.clone());
        let open = open_directory(&true_name).ok();
        Self { name, true_name, open }
    }

    /// The current location of the opened directory, and the directory that now has its name.
    pub(super) fn locations(&self) -> Vec<DirectoryLocation> {
        let moved = self.open.as_ref().and_then(DirectoryLocation::of);
        let named = self
            .name
            .canonicalize()
            .ok()
            .and_then(|path| DirectoryLocation::of(&open_directory(&path).ok()?));
        let mut locations: Vec<DirectoryLocation> = moved.into_iter().chain(named).collect();
        locations.dedup();
        locations
    }

    /// The absolute name, with its links.
    pub(super) fn full_name(&self) -> Option<PathBuf> {
        std::path::absolute(&self.name).ok()
    }

    /// The current path of something below it; none if it lies elsewhere.
    pub(super) fn below(&self, path: &Path) -> Option<PathBuf> {
        let names = [&self.name, &self.true_name];
        let rest = names.into_iter().find_map(|name| path.strip_prefix(name).ok())?;
        Some(self.locations().first()?.path.join(rest))
    }
}

impl DirectoryLocation {
    /// None for a removed directory.
    pub(super) fn of(open: &File) -> Option<Self> {
        let found = open.metadata().ok().filter(|found| found.nlink() > 0)?;
        let path = fs::read_link(link_to(open)).ok()?;
        Some(Self { path, device: found.dev(), inode: found.ino() })
    }

    /// Whether this metadata is of exactly this directory, independent of the path.
    pub(super) fn is(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }

    /// Opens exactly this directory.
    pub(super) fn open(&self) -> io::Result<File> {
        let open = open_directory(&self.path)?;
        if self.is(&open.metadata()?) {
            return Ok(open);
        }
        Err(io::Error::other("it was moved at this moment; try again"))
    }

    /// As an argument of the hidden command.
    pub(super) fn into_argument(self) -> OsString {
        let mut word = OsString::from(format!("{}:{}:", self.device, self.inode));
        word.push(self.path);
        word
    }

    pub fn from_argument(word: &OsStr) -> Option<Self> {
        let mut parts = word.as_bytes().splitn(3, |byte| *byte == b':');
        let mut number = || str::from_utf8(parts.next()?).ok()?.parse().ok();
        let (device, inode) = (number()?, number()?);
        let path = PathBuf::from(OsString::from_vec(parts.next()?.to_vec()));
        Some(Self { path, device, inode })
    }
}

/// A path that resolves to exactly this open file.
pub(super) fn link_to(open: &File) -> String {
    format!("/proc/self/fd/{}", open.as_raw_fd())
}

fn open_directory(path: &Path) -> io::Result<File> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW)
}

/// Opens anything, only to identify it.
pub(super) fn open_path(path: &Path) -> io::Result<File> {
    open(path, OFlags::PATH | OFlags::NOFOLLOW)
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_found_where_it_was_moved_and_so_is_another_one_in_its_place() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/data/own")).unwrap();
        let hidden = HiddenDirectory::new(root.join("a/data"));
        let paths = || hidden.locations().into_iter().map(|location| location.path).collect::<Vec<_>>();
        assert_eq!(paths(), [root.join("a/data")]);
        fs::rename(root.join("a"), root.join("b")).unwrap();
        assert_eq!(paths(), [root.join("b/data")]);
        assert_eq!(hidden.below(&root.join("a/data/own")), Some(root.join("b/data/own")));
        fs::create_dir_all(root.join("a/data")).unwrap();
        assert_eq!(paths(), [root.join("b/data"), root.join("a/data")]);
        fs::remove_dir_all(root.join("b")).unwrap();
        assert_eq!(paths(), [root.join("a/data")]);
    }

    #[test]
    fn a_place_survives_as_a_word_and_opens_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap().join("a:b");
        fs::create_dir(&path).unwrap();
        let location = DirectoryLocation::of(&open_directory(&path).unwrap()).unwrap();
        assert_eq!(
            DirectoryLocation::from_argument(&location.clone().into_argument()),
            Some(location.clone())
        );
        assert!(location.open().is_ok());
        fs::rename(&path, path.with_file_name("c")).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(location.open().is_err());
        assert_eq!(DirectoryLocation::from_argument(OsStr::new("1:/a")), None);
    }
}
