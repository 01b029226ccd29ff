//! Files on disk: written atomically, and read within bounds where an agent may have put something else.
//!
//! Every file that replaces another one is a [`Draft`] first: a new file that takes its final name in one rename. A
//! reader sees the old content or the new, and an error keeps the old one.

pub(crate) mod beneath;
mod draft;
pub(crate) mod regular;

pub(crate) use draft::{Draft, sweep};

use std::io::{self, Write};
use std::path::Path;

/// The failures that a placed file survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A loss of power.
    Synced,
    /// The end of this process. A loss of power may restore the earlier content.
    Cached,
}

/// Replaces the content of a file, which only its owner can read. No agent may be able to change the directory.
pub(crate) fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut draft = Draft::beside(path)?;
    draft.file().write_all(bytes)?;
    draft.place(durability)
}
