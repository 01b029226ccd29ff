//! Opens files beneath a directory that an agent can write to, without following anything the agent put there.
//!
//! Every step is one `openat` of one name with `O_NOFOLLOW` on the parent's descriptor, so no link, rename or race
//! leads out of the tree. Only regular files with one name are read, up to a limit. Everything here blocks on the
//! disk: call it off the async threads.

mod remove;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::{Draft, Durability};

/// Time limit for removing a tree that stands in the place of a file.
const REPLACE_LIMIT: Duration = Duration::from_secs(10);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o700);

/// A directory held by its descriptor.
#[derive(Debug)]
pub(crate) struct Directory {
    handle: OwnedFd,
}

/// The beginning of a file, and the length of the whole file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) size: u64,
}

/// Distinguishes versions of a file without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    inode: u64,
    size: i64,
    changed_at: (i64, u64),
}

impl Directory {
    /// `path` must be one that no agent can change.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        open_directory(CWD, path.as_os_str())
    }

    /// Like `open`, but links may lead to the directory.
    pub(crate) fn open_linked(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { handle: openat(CWD, path, flags, Mode::empty())? })
    }

    pub(crate) fn child(&self, name: &str) -> io::Result<Self> {
        open_directory(self.handle.as_fd(), one_name(name)?)
    }

    /// The directory of this name; replaces anything else that has the name.
    pub(crate) fn make_child(&self, name: &str) -> io::Result<Self> {
        let name = one_name(name)?;
        match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(known) if FileType::from_raw_mode(known.st_mode) != FileType::Directory => {
                unlinkat(&self.handle, name, AtFlags::empty())?;
            }
            Ok(_) | Err(_) => {}
        }
        match mkdirat(&self.handle, name, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => self.own_child(name),
            Err(error) => Err(error.into()),
        }
    }

    /// At most `limit` bytes of a regular file.
    pub(crate) fn read(&self, name: &str, limit: u64) -> io::Result<Content> {
        // Opening a FIFO without a writer would block, and a device could do anything.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&self.handle, one_name(name)?, flags, Mode::empty())?);
        let known = fstat(&file)?;
        if FileType::from_raw_mode(known.st_mode) != FileType::RegularFile || known.st_nlink != 1 {
            return Err(io::Error::other("it is not a regular file with one name"));
        }
        let mut bytes = Vec::new();
        (&file).take(limit).read_to_end(&mut bytes)?;
        Ok(Content { bytes, size: file.metadata()?.len() })
    }

    /// Replaces whatever has this name, even a whole tree, by a file.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let name = one_name(name)?;
        let mut draft = Draft::within(Self { handle: self.handle.try_clone()? }, name)?;
        draft.file().write_all(bytes)?;
        match draft.place(durability) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                self.remove(name, Instant::now() + REPLACE_LIMIT)?;
                draft.place(durability)
            }
            placed => placed,
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        one_name(name).is_ok_and(|name| statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// The state of the file at this path, if any; all names but the last must be directories.
    pub(crate) fn state_of(&self, path: &str) -> Option<State> {
        let Some((first, rest)) = path.split_once('/') else {
            let found = statat(&self.handle, one_name(path).ok()?, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let changed_at = (found.st_mtime, found.st_mtime_nsec);
            return Some(State { inode: found.st_ino, size: found.st_size, changed_at });
        };
        self.child(first).ok()?.state_of(rest)
    }

    /// The names in the directory, at most `limit` of them, in no order.
    pub(crate) fn names(&self, limit: usize) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
            if names.len() == limit {
                break;
            }
        }
        Ok(names)
    }

    /// A directory made writable for us, whatever mode the agent gave it.
    pub(crate) fn own_child(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(&self.handle, name, flags, Mode::empty())?;
        if !Mode::from_raw_mode(fstat(&found)?.st_mode).contains(Mode::RWXU) {
            // By its descriptor: its name may refer to something else by now.
            let path = format!("/proc/self/fd/{}", found.as_raw_fd());
            std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
        }
        open_directory(found.as_fd(), OsStr::new("."))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

fn open_directory(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<Directory> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Directory { handle: openat(at, name, flags, Mode::empty())? })
}

fn one_name(name: &str) -> io::Result<&OsStr> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(OsStr::new(name))
}

#[cfg(test)]
mod tests;
