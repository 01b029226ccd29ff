//! A client's file on disk: read, changed and replaced atomically, with a backup of the original.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Refusal;
use super::entry::Secrecy;
use crate::cli::error::CliError;
use crate::files::{Draft, Durability};

/// The backup beside the file, made once: it must not contain changes of ours.
const BACKUP: &str = "before-fleet";
/// The client may write its file at the same time; then we read it again.
const TRIES: usize = 5;
const PRIVATE_MODE: u32 = 0o600;
const OWNER: u32 = 0o700;

#[derive(Debug)]
pub(super) struct ClientFile {
    path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    Changed,
    Unchanged,
}

impl ClientFile {
    /// A link is followed: its target is changed, and it stays a link.
    pub(super) fn new(path: &Path) -> Self {
        let target = || Some(path.parent()?.join(std::fs::read_link(path).ok()?));
        let real = std::fs::canonicalize(path).ok().or_else(target);
        Self { path: real.unwrap_or_else(|| path.to_owned()) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its text; empty if it does not exist.
    pub(super) fn read(&self) -> Result<String, CliError> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(source) => Err(CliError::File { path: self.path.clone(), source }),
        }
    }

    /// Changes the text; a text that cannot be parsed is refused and stays.
    pub(super) fn change(
        &self,
        secrecy: Secrecy,
        change: impl Fn(&str) -> Result<String, Refusal>,
    ) -> Result<Saved, CliError> {
        for _ in 0..TRIES {
            let before = self.read()?;
            let after = change(&before).map_err(|refusal| self.refused(refusal))?;
            if after == before {
                return Ok(Saved::Unchanged);
            }
            if self.replace(&before, &after, secrecy).map_err(|source| self.unsaved(source))? {
                return Ok(Saved::Changed);
            }
        }
        Err(self.unsaved(io::Error::other("another program keeps changing it")))
    }

    pub(super) fn refused(&self, refusal: Refusal) -> CliError {
        let Refusal { line, problem } = refusal;
        CliError::Malformed { path: self.path.clone(), line, problem }
    }

    fn unsaved(&self, source: io::Error) -> CliError {
        CliError::Save { path: self.path.clone(), source }
    }

    /// False if the file is no longer what was read.
    fn replace(&self, before: &str, after: &str, secrecy: Secrecy) -> io::Result<bool> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(OWNER).create(directory)?;
        let mut draft = Draft::beside(&self.path)?;
        draft.file().write_all(after.as_bytes())?;
        draft.file().set_permissions(Permissions::from_mode(self.mode(secrecy)?))?;
        if self.read().ok().as_deref() != Some(before) {
            return Ok(false);
        }
        self.back_up()?;
        draft.place(Durability::Synced)?;
        Ok(true)
    }

    /// A part of a copy never gets its final name, since a later change would take it for the original.
    fn back_up(&self) -> io::Result<()> {
        let copy = self.path.with_added_extension(BACKUP);
        if copy.exists() || !self.path.exists() {
            return Ok(());
        }
        let mut original = File::open(&self.path)?;
        let mut draft = Draft::beside(&copy)?;
        io::copy(&mut original, draft.file())?;
        draft.file().set_permissions(original.metadata()?.permissions())?;
        draft.place(Durability::Synced)
    }

    fn mode(&self, secrecy: Secrecy) -> io::Result<u32> {
        let known = match std::fs::metadata(&self.path) {
            Ok(metadata) => metadata.permissions().mode() & 0o777,
            Err(error) if error.kind() == io::ErrorKind::NotFound => PRIVATE_MODE,
            Err(error) => return Err(error),
        };
        Ok(match secrecy {
            Secrecy::Open => known,
            Secrecy::Private => known & OWNER,
        })
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
