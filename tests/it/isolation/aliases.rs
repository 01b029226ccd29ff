//! A file system that is mounted twice: what is hidden under one path is hidden under every other one.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::skipped;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fleet-mcp");
const USERS: [u32; 2] = [0, 65_534];
const FILES: [&str; 6] = [
    "home/u/fleet/operator.token",
    "home/u/fleet/workspaces/own/secret",
    "home/u/fleet/workspaces/other/secret",
    "home/u/repo/.git/config",
    "volume/rescued",
    "home/u/notes",
];

/// Reads each file by every path that leads there, also with the rights of a namespace of its own.
const LOOK: &str = r#"
for file in alt/u/fleet/operator.token same/operator.token home/u/fleet/operator.token \
    alt/u/fleet/workspaces/own/secret part/own/secret home/u/fleet/workspaces/own/secret own/secret \
    alt/u/fleet/workspaces/other/secret part/other/secret same/workspaces/other/secret \
    volume/rescued home/u/fleet/rescued/rescued alt/u/notes home/u/notes
do
    cat "$file" >/dev/null 2>&1 && echo "read $file"
    umount -l "${file%/*}" 2>/dev/null && echo "unmounted ${file%/*}"
    unshare -Urm sh -c 'umount -l "$2"; cat "$1"' sh "$file" "${file%/*}" >/dev/null 2>&1 && echo "had $file"
done
unshare -Urm sh -c 'mount --bind alt /mnt && cat /mnt/u/fleet/operator.token' >/dev/null 2>&1 && echo "had it by a mount"
for config in home/u/repo/.git/config alt/u/repo/.git/config; do
    (echo x >>"$config") 2>/dev/null && echo "wrote $config"
done
(mv alt/u/fleet alt/u/moved || mv alt/u alt/moved) 2>/dev/null && echo "moved"
echo looked
"#;

const SEEN: &str = "\
read home/u/fleet/workspaces/own/secret
had home/u/fleet/workspaces/own/secret
read own/secret
had own/secret
read alt/u/notes
had alt/u/notes
read home/u/notes
had home/u/notes
looked
";

/// All files, and the directories in which they are seen a second time.
fn laid_out(root: &Path, user: u32) {
    let made =
        FILES.iter().flat_map(|file| Path::new(file).ancestors().filter(|path| *path != Path::new("")));
    let points = ["alt", "same", "part", "own", "home/u/fleet/rescued"].map(Path::new);
    for directory in FILES.iter().filter_map(|file| Path::new(file).parent()).chain(points) {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in FILES {
        std::fs::write(root.join(file), "secret").unwrap();
    }
    for path in made.chain(points).chain([Path::new("")]) {
        chown(root.join(path), Some(user), Some(user)).unwrap();
    }
}

/// Runs the program as this user in a mount namespace of its own, after these mounts.
fn enclosed(root: &Path, user: u32, mounts: &str, command: &[&str]) -> Output {
    let data = root.join("home/u/fleet");
    let found = data.metadata().unwrap();
    let place = format!("{}:{}:{}", found.dev(), found.ino(), data.display());
    let as_user = format!("setpriv --reuid={user} --regid={user} --clear-groups");
    let script = format!("set -e; {mounts}\nexec {as_user} \"$0\" enclose \"$@\"");
    let mut enclosed = Command::new("unshare");
    enclosed.args(["-m", "sh", "-c", &script, PROGRAM, "--hide", &place, "--keep"]);
    enclosed.arg(data.join("workspaces/own")).arg("--read-only").arg(root.join("home/u/repo/.git"));
    enclosed.args(["--own-processes", "--"]).args(command).current_dir(root).output().unwrap()
}

/// Plays once for each user whose processes can be enclosed here.
fn as_each_user(play: impl Fn(&Path, u32)) {
    if !rustix::process::getuid().is_root() {
        return skipped("only root can mount something beforehand");
    }
    for user in USERS {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        laid_out(&root, user);
        let tried = enclosed(&root, user, "", &["true"]);
        if tried.status.success() {
            play(&root, user);
        } else {
            skipped(&format!("processes of user {user} cannot be enclosed on this machine: {tried:?}"));
        }
    }
}

#[test]
fn the_fleets_data_is_hidden_under_every_mount_of_its_file_system() {
    let mounts =
        "mount --bind home alt; mount --bind home/u/fleet same; mount --bind home/u/fleet/workspaces part
        mount --bind home/u/fleet/workspaces/own own; mount --bind volume home/u/fleet/rescued";
    as_each_user(|root, user| {
        let seen = enclosed(root, user, mounts, &["sh", "-c", LOOK]);
        assert_eq!(String::from_utf8_lossy(&seen.stdout), SEEN, "user {user}: {seen:?}");
    });
}

#[test]
fn the_own_workspace_stays_where_directories_above_it_are_mounted_on_themselves() {
    let mounts = "mount --rbind home home; mount --bind home/u/fleet home/u/fleet
        mount --bind home/u/fleet/workspaces home/u/fleet/workspaces; mount --rbind home alt";
    let look = "cat home/u/fleet/workspaces/own/secret alt/u/fleet/workspaces/own/secret 2>/dev/null; echo; ls home/u";
    as_each_user(|root, user| {
        let seen = enclosed(root, user, mounts, &["sh", "-c", look]);
        assert_eq!(String::from_utf8_lossy(&seen.stdout), "secret\nfleet\nnotes\nrepo\n", "{seen:?}");
    });
}

#[test]
fn a_file_of_the_fleets_data_that_is_mounted_elsewhere_lets_nothing_start() {
    let mounts = "touch leak; mount --bind home/u/fleet/operator.token leak";
    as_each_user(|root, user| {
        let refused = enclosed(root, user, mounts, &["cat", "leak"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        let expected =
            format!("error: cannot hide {}: Not a directory (os error 20)\n", root.join("leak").display());
        assert_eq!((refused.status.code(), said), (Some(125), expected));
    });
}
