//! Removes a tree that an agent made, however deep, wide or locked, and no target of a link.

use std::ffi::OsStr;
use std::io;
use std::time::Instant;

use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::io::Errno;

use super::Directory;
use crate::files::draft::fresh_name;

/// How many names of a wide directory are held in memory at a time.
const BATCH: usize = 1_024;

impl Directory {
    /// Removes a file, a link or a whole tree. What remains at the deadline stays: a process that holds a directory
    /// of the tree open can fill it for ever.
    pub(crate) fn remove(&self, name: &OsStr, deadline: Instant) -> io::Result<()> {
        if self.unlink(name)? == Unlinked::Gone {
            return Ok(());
        }
        let tree = self.own_child(name)?;
        self.remove_emptied(name, deadline, || {
            tree.for_each_name(deadline, |inner| tree.dissolve(inner, deadline))
        })
    }

    /// Removes a file or a directory. Subdirectories are moved up beside it first: so a tree of any depth needs
    /// three descriptors.
    fn dissolve(&self, name: &OsStr, deadline: Instant) -> io::Result<()> {
        if self.unlink(name)? == Unlinked::Gone {
            return Ok(());
        }
        let directory = self.own_child(name)?;
        let take_out = |inner: &OsStr| {
            if directory.unlink(inner)? == Unlinked::Gone {
                return Ok(());
            }
            // A directory can move only if it is writable, since its `..` entry changes.
            directory.own_child(inner)?;
            Ok(renameat(&directory.handle, inner, &self.handle, fresh_name())?)
        };
        self.remove_emptied(name, deadline, || directory.for_each_name(deadline, take_out))
    }

    /// A directory that got another entry since it was emptied is emptied again.
    fn remove_emptied(
        &self,
        name: &OsStr,
        deadline: Instant,
        empty: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            empty()?;
            if self.unlink(name)? == Unlinked::Gone {
                return Ok(());
            }
            check(deadline)?;
        }
    }

    /// Each call removes its name from the directory, so this ends unless others keep adding names.
    fn for_each_name(&self, deadline: Instant, act: impl Fn(&OsStr) -> io::Result<()>) -> io::Result<()> {
        loop {
            let names = self.names(BATCH)?;
            for name in &names {
                act(name)?;
            }
            if names.is_empty() {
                return Ok(());
            }
            check(deadline)?;
        }
    }

    /// Removes anything but a non-empty directory.
    fn unlink(&self, name: &OsStr) -> io::Result<Unlinked> {
        match unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(Unlinked::Gone),
            Err(Errno::ISDIR) => {}
            Err(error) => return Err(error.into()),
        }
        match unlinkat(&self.handle, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(Unlinked::Gone),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Unlinked::HoldsEntries),
            Err(error) => Err(error.into()),
        }
    }
}

fn check(deadline: Instant) -> io::Result<()> {
    if Instant::now() < deadline {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "a process still writes there"))
}

/// The outcome of an unlink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unlinked {
    Gone,
    HoldsEntries,
}
