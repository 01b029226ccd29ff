//! Maps users in our user namespaces: all ids stay the same inside.

use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::process::{Gid, Uid, getgid, getuid};

/// The ids to map, prepared before the namespace is entered.
pub(super) enum Users {
    /// Only the own ids: a plain user may map no others.
    Own { user: Uid, group: Gid },
    /// All ids. A process that stays outside writes the map.
    All { map_writer: Child },
}

impl Users {
    pub(super) fn prepare() -> io::Result<Self> {
        if !getuid().is_root() {
            return Ok(Self::Own { user: getuid(), group: getgid() });
        }
        let mut map_writer = Command::new("/proc/self/exe");
        map_writer.args([super::COMMAND, "--map-users", &std::process::id().to_string()]);
        Ok(Self::All { map_writer: map_writer.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()? })
    }

    pub(super) fn keep(self) -> io::Result<()> {
        match self {
            Self::Own { user, group } => {
                // Giving a group up could grant access that the group is denied.
                fs::write("/proc/self/setgroups", "deny")?;
                fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
                fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))
            }
            Self::All { mut map_writer } => {
                if let Some(mut stdin) = map_writer.stdin.take() {
                    stdin.write_all(b"\n")?;
                }
                let ended = map_writer.wait()?;
                if ended.success() { Ok(()) } else { Err(io::Error::other("they could not be written down")) }
            }
        }
    }
}

/// Waits until the process has entered its user namespace, and then maps all ids to themselves.
pub fn map_users(process: u32) -> io::Result<()> {
    if io::stdin().read(&mut [0])? == 0 {
        // The process could not enter it, and has reported that itself.
        return Ok(());
    }
    for map in ["uid_map", "gid_map"] {
        let here = fs::read_to_string(format!("/proc/self/{map}"))?;
        fs::write(format!("/proc/{process}/{map}"), same_ids(&here))?;
    }
    Ok(())
}

/// Each line of a map: first id inside, first id outside, number of ids.
fn same_ids(map: &str) -> String {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace();
        let (inside, count) = (numbers.next()?, numbers.nth(1)?);
        Some(format!("{inside} {inside} {count}\n"))
    });
    ranges.collect()
}

#[cfg(test)]
mod tests {
    use super::same_ids;

    #[test]
    fn every_id_there_is_stays_the_same() {
        let map = "         0     100000       1000\n      1000       1000          1\n";
        assert_eq!(same_ids(map), "0 0 1000\n1000 1000 1\n");
    }
}
