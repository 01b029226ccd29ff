//! Mounts in a namespace of our own: something empty over what is to be hidden, with windows in directories.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};

/// Nothing we mount is seen outside; what is mounted outside later is still seen here.
pub(super) fn detach() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Hides a file, or all of a directory but the parts to keep; those that are not there, or lie elsewhere, are no
/// concern.
pub(super) fn hide(path: &Path, keep: &[PathBuf]) -> io::Result<()> {
    if path.is_dir() { hide_directory(path, keep) } else { hide_file(path) }
}

/// A device that may not be opened lies over it, and cannot be taken away or replaced.
fn hide_file(path: &Path) -> io::Result<()> {
    mount_bind("/dev/null", path)?;
    let closed = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(mount_remount(path, MountFlags::BIND | closed, "")?)
}

fn hide_directory(root: &Path, keep: &[PathBuf]) -> io::Result<()> {
    let mut windows = Vec::new();
    for path in keep.iter().filter(|path| path.starts_with(root) && path.is_dir()) {
        // Held open, because its path leads nowhere once the rest is hidden.
        let open =
            File::options().read(true).custom_flags(flags(OFlags::PATH | OFlags::DIRECTORY)).open(path)?;
        windows.push((path, open));
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("fleet-hidden", root, "tmpfs", quiet, c"mode=0700,size=1m")?;
    for (path, open) in windows {
        fs::create_dir_all(path)?;
        mount_bind_recursive(format!("/proc/self/fd/{}", open.as_raw_fd()), path)?;
    }
    Ok(mount_remount(root, quiet | MountFlags::RDONLY, "mode=0700,size=1m")?)
}

/// Terminals of our own: those of others, through which secrets and commands go, cannot be opened by name. The
/// one we came with stays open.
pub(super) fn own_terminals() -> io::Result<()> {
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    Ok(mount("devpts", "/dev/pts", "devpts", quiet, c"newinstance,ptmxmode=0666,mode=0620")?)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
