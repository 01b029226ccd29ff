//! Decides where the database may be if agents run on this machine: in a directory that can be hidden as a whole.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::BootError;
use crate::config::Settings;

/// The directory of a database outside of the data directory, to be hidden from agents. Hiding single files is not
/// enough: SQLite creates and removes files beside its database, and reads what it finds there.
pub(super) fn hidden_directory(settings: &Settings) -> Result<Option<PathBuf>, BootError> {
    let named = &std::path::absolute(&settings.database).map_err(BootError::Serve)?;
    let database = named.canonicalize().unwrap_or_else(|_| named.clone());
    // The store reports a missing directory.
    let Some(directory) = database.parent().and_then(|parent| parent.canonicalize().ok()) else {
        return Ok(None);
    };
    let is_inside = |data_dir: PathBuf| directory.starts_with(data_dir);
    if settings.data_dir.canonicalize().is_ok_and(is_inside) {
        return Ok(None);
    }
    match foreign_file(&directory, &[&database, named]) {
        Some(foreign_file) => Err(BootError::StorePlace { directory, foreign_file }),
        None => Ok(Some(directory)),
    }
}

/// Something in the directory that is not one of the database's files.
fn foreign_file(directory: &Path, own: &[&Path]) -> Option<OsString> {
    let entries = std::fs::read_dir(directory).ok()?.flatten().map(|entry| entry.file_name());
    let own: Vec<&[u8]> = own.iter().filter_map(|path| Some(path.file_name()?.as_bytes())).collect();
    let is_own = |name: &OsString| own.iter().any(|own| name.as_bytes().starts_with(own));
    entries.into_iter().find(|name| !is_own(name))
}
