//! FUSE file systems of processes: an unresponsive one keeps a process from being killed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Result};

/// Agents decide how many file systems they mount.
const LONGEST_TABLE: u64 = 1024 * 1024;

/// At most this many connections are named.
const MOST_NAMED: usize = 4;

/// Advice about processes that cannot be killed.
pub(super) fn remedy(pids: &[u32]) -> String {
    let files: Vec<String> = connections(pids).into_iter().take(MOST_NAMED).map(abort_file).collect();
    if files.is_empty() {
        return "read /proc/PID/stack to see why each of them is blocked, then try again".to_owned();
    }
    format!("as root, write 1 to {}, then try again", files.join(" and "))
}

/// Ends all requests that wait for the file system.
fn abort_file(connection: u32) -> String {
    format!("/sys/fs/fuse/connections/{connection}/abort")
}

/// FUSE connections that these processes have mounted and this process has not.
fn connections(pids: &[u32]) -> BTreeSet<u32> {
    let ours = mounted_in("self");
    let theirs = pids.iter().flat_map(|pid| mounted_in(&pid.to_string()));
    theirs.filter(|connection| !ours.contains(connection)).collect()
}

/// Empty for a process that is gone.
fn mounted_in(process: &str) -> BTreeSet<u32> {
    let table = mounts(process).unwrap_or_default();
    String::from_utf8_lossy(&table).lines().filter_map(connection).collect()
}

fn mounts(process: &str) -> Result<Vec<u8>> {
    let mut table = Vec::new();
    File::open(format!("/proc/{process}/mountinfo"))?.take(LONGEST_TABLE).read_to_end(&mut table)?;
    Ok(table)
}

/// The connection's number is the minor number of the device. Paths in the line contain no spaces.
fn connection(line: &str) -> Option<u32> {
    let (mount, file_system) = line.split_once(" - ")?;
    let kind = file_system.split_whitespace().next()?;
    let is_fuse = kind == "fuse" || kind.starts_with("fuse.");
    let device = mount.split_whitespace().nth(2).filter(|_| is_fuse)?;
    device.strip_prefix("0:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuse_mount_names_its_connection() {
        let of =
            |kind: &str| connection(&format!("36 35 0:57 / /a\\040-\\040fuse rw master:1 - {kind} fuse rw"));
        let found = ["fuse", "fuse.sshfs", "fusectl", "tmpfs"].map(of);
        assert_eq!(found, [Some(57), Some(57), None, None]);
        assert_eq!(connection("36 35 0:57 /"), None);
    }

    #[test]
    fn processes_without_a_file_system_of_their_own_are_to_be_looked_at() {
        assert_eq!(
            remedy(&[std::process::id()]),
            "read /proc/PID/stack to see why each of them is blocked, then try again"
        );
    }
}
