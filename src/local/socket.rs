//! Where an agent listens: in its own directory, or elsewhere when that path is too long for a socket.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{LocalError, files};

/// The kernel takes 107 bytes; a little less is the same on other systems.
const LONGEST: usize = 100;

/// A path for the socket, with nothing of an earlier agent there.
pub(crate) fn path_for(fleet: &Path, workspace: Uuid) -> Result<PathBuf, LocalError> {
    let near = fleet.join("agent.sock");
    let path = if near.as_os_str().as_bytes().len() <= LONGEST { near } else { far(workspace)? };
    remove(&path)?;
    Ok(path)
}

/// Removes a socket that nobody listens on any more.
pub(crate) fn remove(path: &Path) -> Result<(), LocalError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LocalError::directory(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Where sockets lie whose own directory is too far down, each in a directory of its own.
pub(crate) fn far_directory() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_dir() && runtime.as_os_str().len() < 40 => runtime.join("fleet-mcp"),
        Some(_) | None => PathBuf::from(format!("/tmp/fleet-mcp-{user}")),
    }
}

/// Removes a socket with the directory that was made for it alone, if there was one.
pub(crate) fn forget(workspace: Uuid) {
    // Only sockets that lie far away have one.
    let _absent = std::fs::remove_dir_all(far_directory().join(workspace.simple().to_string()));
}

fn far(workspace: Uuid) -> Result<PathBuf, LocalError> {
    let directory = far_directory();
    files::private_directory(&directory)?;
    check_private(&directory, rustix::process::getuid().as_raw())?;
    let own = directory.join(workspace.simple().to_string());
    files::private_directory(&own)?;
    Ok(own.join("agent.sock"))
}

/// Anybody can make a directory in /tmp: only one that is ours alone will do.
fn check_private(directory: &Path, user: u32) -> Result<(), LocalError> {
    let known = std::fs::symlink_metadata(directory).map_err(LocalError::directory(directory))?;
    if known.is_dir() && known.uid() == user && known.mode() & 0o077 == 0 {
        return Ok(());
    }
    let source = std::io::Error::other("it is not a directory that only this user can enter");
    Err(LocalError::Directory { path: directory.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_lies_in_the_agents_directory_unless_its_path_is_too_long() {
        let id = Uuid::from_u128(7);
        assert_eq!(path_for(Path::new("/a/fleet"), id).unwrap(), Path::new("/a/fleet/agent.sock"));
        let long = PathBuf::from(format!("/{}/fleet", "x".repeat(90)));
        let path = path_for(&long, id).unwrap();
        assert!(path.ends_with(format!("{}/agent.sock", id.simple())), "{}", path.display());
        assert!(path.as_os_str().len() <= LONGEST);
        forget(id);
        assert!(!path.parent().unwrap().exists());
    }
}
