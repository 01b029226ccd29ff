//! Mounts in our own namespace: empty file systems over hidden directories, with bind mounts to what stays visible.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags, open, openat, statvfs};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_remount,
};
use rustix::process::getuid;

use super::hidden::{DirectoryLocation, link_to};

/// Paths that change the machine itself. Root may write there without any capability.
const OF_MACHINE: [&str; 6] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys"];

/// Our mounts are not visible outside; later mounts outside are still visible here.
pub(super) fn detach() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Makes a directory or a link a mount point, which no process in this namespace can rename, remove or replace.
pub(super) fn pin(path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = match open(path, flags, Mode::empty()) {
        Ok(open) => File::from(open),
        // A missing path needs no protection.
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // By its descriptor: the path of a link would lead to its target.
    Ok(mount_bind_recursive(link_to(&open), link_to(&open))?)
}

/// Makes a file or a directory read-only. Hidden directories need no protection; visible directories in them stay
/// writable.
pub(super) fn protect(path: &Path) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    mount_bind_recursive(path, path)?;
    // The kernel refuses a remount that drops an existing restriction.
    let is_noexec = statvfs(path)?.f_flag.contains(StatVfsMountFlags::NOEXEC);
    let noexec = if is_noexec { MountFlags::NOEXEC } else { MountFlags::empty() };
    let closed = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY | noexec;
    Ok(mount_remount(path, MountFlags::BIND | closed, "")?)
}

/// Hides a directory except for the parts to keep; missing or moved parts are ignored.
pub(super) fn hide(location: &DirectoryLocation, keep: &[PathBuf]) -> io::Result<()> {
    let root = location.open()?;
    let mut windows = Vec::new();
    for path in keep {
        let Ok(below) = path.strip_prefix(&location.path) else { continue };
        // Held open, because its path no longer resolves once the rest is hidden.
        if let Some(open) = open_below(&root, below)? {
            windows.push((path, open));
        }
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // By its descriptor: its path may change at any moment.
    mount("fleet-hidden", link_to(&root), "tmpfs", quiet, c"mode=0700,size=1m")?;
    for (path, open) in windows {
        fs::create_dir_all(path)?;
        mount_bind_recursive(link_to(&open), path)?;
    }
    Ok(mount_remount(&location.path, quiet | MountFlags::RDONLY, "mode=0700,size=1m")?)
}

/// Opens a directory strictly below the root. Follows no links: an agent could have put them there.
fn open_below(root: &File, below: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut open = None;
    for component in below.components() {
        let Component::Normal(name) = component else { return Ok(None) };
        match openat(open.as_ref().unwrap_or(root), name, flags, Mode::empty()) {
            Ok(next) => open = Some(File::from(next)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(open)
}

/// Mounts a new `devpts`, so that terminals of others, which carry secrets and commands, cannot be opened by name.
/// The inherited terminal stays open.
pub(super) fn own_terminals() -> io::Result<()> {
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    Ok(mount("devpts", "/dev/pts", "devpts", quiet, c"newinstance,ptmxmode=0666,mode=0620")?)
}

/// Mounts a `/proc` that shows only our PID namespace.
pub(super) fn own_processes() -> io::Result<()> {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "/proc", "proc", quiet, c"")?)
}

/// Makes the paths that change the machine read-only, with the file systems mounted there. A plain user cannot
/// change them, and the kernel lets its programs mount their own `/proc` only while no part of ours is covered.
pub(super) fn protect_machine() -> io::Result<()> {
    if !getuid().is_root() {
        return Ok(());
    }
    let mounted = fs::read_to_string("/proc/self/mountinfo")?;
    let is_of_machine = |path: &&str| OF_MACHINE.iter().any(|known| Path::new(path).starts_with(known));
    // The fifth field is the mount point. A directory precedes the mounts below it.
    let mounted = mounted.lines().filter_map(|line| line.split(' ').nth(4)).filter(is_of_machine);
    let all: BTreeSet<&Path> = OF_MACHINE.into_iter().chain(mounted).map(Path::new).collect();
    all.into_iter().try_for_each(protect)
}
