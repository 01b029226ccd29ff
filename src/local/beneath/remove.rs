//! Removes a tree that an agent made, however deep, wide or locked it is, and nothing that a link leads to.

use std::ffi::OsStr;
use std::io;

use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::io::Errno;

use super::{Directory, fresh_name};

/// How many names of a wide directory are held in memory at a time.
const BATCH: usize = 1_024;

impl Directory {
    /// Removes a file, a link or a whole tree.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        if self.unlink(name)? == Unlinked::Gone {
            return Ok(());
        }
        let tree = self.own_child(name)?;
        tree.for_each_name(|inner| tree.dissolve(inner))?;
        Ok(unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes a file or a directory. The directories inside move up beside it first: so a tree of any depth
    /// needs three descriptors.
    fn dissolve(&self, name: &OsStr) -> io::Result<()> {
        if self.unlink(name)? == Unlinked::Gone {
            return Ok(());
        }
        let directory = self.own_child(name)?;
        directory.for_each_name(|inner| {
            if directory.unlink(inner)? == Unlinked::Gone {
                return Ok(());
            }
            // A directory moves only if it may be written to, since its parent's name is in it.
            directory.own_child(inner)?;
            Ok(renameat(&directory.handle, inner, &self.handle, fresh_name())?)
        })?;
        Ok(unlinkat(&self.handle, name, AtFlags::REMOVEDIR)?)
    }

    /// Each act takes its name out of the directory, so this ends.
    fn for_each_name(&self, act: impl Fn(&OsStr) -> io::Result<()>) -> io::Result<()> {
        loop {
            let names = self.names(BATCH)?;
            if names.is_empty() {
                return Ok(());
            }
            names.iter().try_for_each(|name| act(name))?;
        }
    }

    /// Removes anything but a directory that holds something.
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

/// What became of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unlinked {
    Gone,
    HoldsEntries,
}
