//! The socket of an agent's process: bound out of reach of agents, and passed on as a descriptor.

use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::net::UnixStream;

use super::LocalError;

/// Listens; replaces the socket file of an earlier agent.
pub(crate) fn listen(path: &Path) -> Result<UnixListener, LocalError> {
    remove(path).and_then(|()| bind(path)).map_err(LocalError::directory(path))
}

pub(crate) async fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_open, near) = near(path)?;
    UnixStream::connect(near).await
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let (_open, near) = near(path)?;
    let listener = UnixListener::bind(near)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The same file by a path through its directory's descriptor, which must stay open meanwhile: the kernel limits a
/// socket's path to 107 bytes, and a data directory may be deeper.
fn near(path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(CWD, path.parent().unwrap_or(Path::new("/")), flags, Mode::empty())?;
    let near = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    Ok((open, near.join(path.file_name().unwrap_or_default())))
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_reached_however_long_its_path_and_replaces_a_dead_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x".repeat(200)).join("agent.sock");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        for _ in 0..2 {
            let listener = listen(&path).unwrap();
            connect(&path).await.unwrap();
            drop(listener);
            assert_eq!(connect(&path).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        }
    }
}
