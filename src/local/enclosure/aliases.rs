//! Finds the other paths of a directory: further mounts of its file system, as the kernel lists them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::hidden::{DirectoryLocation, open_path};

const MOVED: &str = "it was moved at this moment; try again";

/// The mounts of this mount namespace.
#[derive(Debug)]
pub(super) struct Mounts(Vec<Mount>);

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    id: u64,
    /// Major and minor number of the file system. `stat` shows other numbers for subvolumes.
    device: Vec<u8>,
    /// The mounted directory of the file system.
    root: PathBuf,
    /// The mount point.
    point: PathBuf,
}

/// A directory tree of one file system.
struct MountedTree<'a> {
    device: &'a [u8],
    /// Its path within the file system.
    inner: PathBuf,
    path: &'a Path,
    location: DirectoryLocation,
}

impl Mounts {
    pub(super) fn read() -> io::Result<Self> {
        Ok(Self::parse(&fs::read("/proc/self/mountinfo")?))
    }

    fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect())
    }

    /// Other paths that lead to the directory, into it or to what is mounted in it. Kept directories stay visible;
    /// paths that lead elsewhere, or that this user cannot follow, are excluded.
    pub(super) fn aliases(&self, path: &Path, keep: &[PathBuf]) -> io::Result<Vec<DirectoryLocation>> {
        let mut found: Vec<DirectoryLocation> = Vec::new();
        for tree in self.trees(path, keep)? {
            for mount in &self.0 {
                let alias = tree.seen_through(mount, keep).filter(|alias| is_apart(alias, path, keep));
                let Some(alias) = alias else { continue };
                found.extend(self.visit(mount, &alias, &tree)?);
            }
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found.dedup();
        Ok(found)
    }

    /// The directory itself, and the file systems mounted below it.
    fn trees<'a>(&'a self, path: &'a Path, keep: &[PathBuf]) -> io::Result<Vec<MountedTree<'a>>> {
        let Some(own) = self.tree(path)? else { return Ok(Vec::new()) };
        let is_below = |point: &Path| point != path && point.starts_with(path) && !is_in(point, keep);
        let mut trees = vec![own];
        for mount in self.0.iter().filter(|mount| is_below(&mount.point)) {
            trees.extend(self.tree(&mount.point)?);
        }
        Ok(trees)
    }

    fn tree<'a>(&'a self, path: &'a Path) -> io::Result<Option<MountedTree<'a>>> {
        let Some(open) = open_visible(path)? else { return Ok(None) };
        let id = mount_of(&open)?;
        let mount = self.0.iter().find(|mount| mount.id == id);
        let within = mount.and_then(|mount| Some((mount, path.strip_prefix(&mount.point).ok()?)));
        let (mount, rest) = within.ok_or_else(|| io::Error::other("its mount is not listed"))?;
        let location = DirectoryLocation::of(&open).ok_or_else(|| io::Error::other(MOVED))?;
        Ok(Some(MountedTree { device: &mount.device, inner: joined(&mount.root, rest), path, location }))
    }

    /// What this path shows; none if it belongs to another mount.
    fn visit(
        &self,
        mount: &Mount,
        alias: &Path,
        tree: &MountedTree<'_>,
    ) -> io::Result<Option<DirectoryLocation>> {
        let Some(open) = open_visible(alias)?.filter(|open| mount_of(open).is_ok_and(|id| id == mount.id))
        else {
            return Ok(None);
        };
        let location = DirectoryLocation::of(&open).ok_or_else(|| io::Error::other(MOVED))?;
        // Something below the directory may be mounted there.
        let is_same = (location.device, location.inode) == (tree.location.device, tree.location.inode);
        if is_same || mount.root != tree.inner && mount.root.starts_with(&tree.inner) {
            return Ok(Some(location));
        }
        Err(io::Error::other(MOVED))
    }
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let device = fields.nth(1)?.to_vec();
        Some(Self { id, device, root: unescaped(fields.next()?), point: unescaped(fields.next()?) })
    }
}

impl MountedTree<'_> {
    /// The path under which this mount shows the tree or a part of it. Kept directories may be visible there.
    fn seen_through(&self, mount: &Mount, keep: &[PathBuf]) -> Option<PathBuf> {
        if mount.device != self.device {
            return None;
        }
        if let Ok(rest) = self.inner.strip_prefix(&mount.root) {
            return Some(joined(&mount.point, rest));
        }
        let kept = keep.iter().filter_map(|path| Some(self.inner.join(path.strip_prefix(self.path).ok()?)));
        let kept: Vec<PathBuf> = kept.collect();
        let is_part = mount.root.starts_with(&self.inner) && !is_in(&mount.root, &kept);
        is_part.then(|| mount.point.clone())
    }
}

/// A path in a hidden directory is hidden with it, except below kept directories, and a path to the directory is no
/// alias.
fn is_apart(alias: &Path, path: &Path, keep: &[PathBuf]) -> bool {
    !path.starts_with(alias) && (!alias.starts_with(path) || is_in(alias, keep))
}

fn is_in(path: &Path, directories: &[PathBuf]) -> bool {
    directories.iter().any(|directory| path.starts_with(directory))
}

/// Avoids the trailing slash of joining an empty path.
fn joined(path: &Path, rest: &Path) -> PathBuf {
    path.join(rest).components().collect()
}

fn open_visible(path: &Path) -> io::Result<Option<File>> {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match open_path(path) {
        Ok(open) => Ok(Some(open)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(None),
        Err(error) => Err(error),
    }
}

fn mount_of(open: &File) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", open.as_raw_fd()))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("its mount is not known"))
}

/// The kernel escapes white space and backslashes as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        let (byte, used) = match octal {
            Some(octal) if *byte == b'\\' => (octal, 4),
            Some(_) | None => (*byte, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTED: &[u8] = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:31 /@home /home rw shared:3 - btrfs /dev/vdb rw
41 27 0:31 / /mnt/all\\040of\\134it rw - btrfs /dev/vdb rw
42 27 0:31 /@home/u/fleet /srv/fleet rw - btrfs /dev/vdb rw
43 27 0:31 /@home/u/fleet/workspaces /srv/ws rw - btrfs /dev/vdb rw
44 27 0:31 /@home/u/fleet/workspaces/own/repo /srv/own rw - btrfs /dev/vdb rw
45 27 0:31 /@home/other /srv/other rw - btrfs /dev/vdb rw
46 27 0:32 / /srv/strange rw - btrfs /dev/vdc rw
broken
";

    #[test]
    fn a_directory_is_seen_through_mounts_of_what_is_above_it_of_itself_and_of_what_is_in_it() {
        let path = Path::new("/home/u/fleet");
        let location = DirectoryLocation { path: path.into(), device: 1, inode: 1 };
        let tree = MountedTree { device: b"0:31", inner: "/@home/u/fleet".into(), path, location };
        let keep = [PathBuf::from("/home/u/fleet/workspaces/own")];
        let mounts = Mounts::parse(MOUNTED);
        let seen = mounts.0.iter().filter_map(|mount| tree.seen_through(mount, &keep));
        let seen: Vec<PathBuf> = seen.filter(|alias| is_apart(alias, path, &keep)).collect();
        assert_eq!(seen, ["/mnt/all of\\it/@home/u/fleet", "/srv/fleet", "/srv/ws"].map(PathBuf::from));
    }

    #[test]
    fn an_alias_in_what_is_kept_is_hidden_and_no_other_one_in_the_directory() {
        let keep = [PathBuf::from("/data/workspaces/own")];
        let is_apart = |alias: &str| is_apart(Path::new(alias), Path::new("/data"), &keep);
        let apart = ["/srv", "/data2", "/data/workspaces/own/x"].map(is_apart);
        let within = ["/", "/data", "/data/workspaces", "/data/workspaces/other"].map(is_apart);
        assert_eq!((apart, within), ([true; 3], [false; 4]));
    }
}
