//! Files on disk: written whole or not at all, and read within bounds where an agent may have put something else.
//!
//! Every file that replaces another one is a [`Draft`] first: a new file beside its final name, which it takes in one
//! rename. A reader sees the old content or the new, and an error leaves the old one.

pub(crate) mod beneath;
mod draft;
pub(crate) mod regular;

pub(crate) use draft::{Draft, sweep};

use std::io::{self, Write};
use std::path::Path;

/// What a file that was put in place survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Also a loss of power.
    Synced,
    /// The end of this process. A loss of power may bring the earlier content back.
    Cached,
}

/// Replaces the content of a file, which only its owner can read. The directory must be one that no agent can change.
pub(crate) fn replace(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut draft = Draft::beside(path)?;
    draft.file().write_all(bytes)?;
    draft.place(durability)
}
