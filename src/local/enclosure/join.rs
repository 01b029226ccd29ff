//! Finds the namespaces of a running workspace and enters them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;

use rustix::fs::{Mode, OFlags, openat};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::{ProcessId, start_time};

/// The process that made a workspace's namespaces and waits for their init. Pid and start time together identify
/// it, since pids are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceOwner {
    pub pid: u32,
    /// In clock ticks since the machine booted.
    pub start_time: u64,
}

impl NamespaceOwner {
    /// The process of a workspace agent, if the agent has its own PID namespace. A dead process is returned too:
    /// joining it then fails with an error.
    pub(super) fn of(process: &ProcessId) -> Option<Self> {
        let link = |path: String| fs::read_link(path).ok();
        let children = link(format!("/proc/{}/ns/pid_for_children", process.pid));
        let is_own = children.is_none() || children != link("/proc/self/ns/pid".to_owned());
        is_own.then_some(Self { pid: process.pid, start_time: process.start_time })
    }
}

impl std::fmt::Display for NamespaceOwner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.pid, self.start_time)
    }
}

impl FromStr for NamespaceOwner {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once(':').and_then(|(pid, start_time)| {
            Some(Self { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
        });
        numbers.ok_or("not a pid and a start time with a colon between them")
    }
}

/// Enters the namespaces of a workspace. Only children that are started afterwards are in its PID namespace.
pub(super) fn enter(encloser: NamespaceOwner) -> io::Result<()> {
    let process = open(encloser)?;
    // The user namespace comes first: it grants the right to enter the others.
    let links = [
        ("ns/user", LinkNameSpaceType::User),
        ("ns/mnt", LinkNameSpaceType::Mount),
        ("ns/pid_for_children", LinkNameSpaceType::ProcessID),
    ];
    let open = |(name, kind)| Ok((file(&process, name)?, kind));
    let namespaces: Vec<(OwnedFd, LinkNameSpaceType)> =
        links.into_iter().map(open).collect::<io::Result<_>>()?;
    for (namespace, kind) in &namespaces {
        move_into_link_name_space(namespace.as_fd(), Some(*kind))?;
    }
    Ok(())
}

/// The `/proc` directory of exactly this process; it stays valid if the pid is reused.
fn open(encloser: NamespaceOwner) -> io::Result<File> {
    let process = File::open(format!("/proc/{}", encloser.pid))?;
    let mut stat = String::new();
    File::from(file(&process, "stat")?).read_to_string(&mut stat)?;
    if start_time(&stat) == Some(encloser.start_time) {
        return Ok(process);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "it has ended"))
}

fn file(process: &File, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(process, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encloser_is_named_by_its_pid_and_start_time() {
        let encloser = NamespaceOwner { pid: 42, start_time: 7 };
        assert_eq!(encloser.to_string().parse(), Ok(encloser));
        assert!(["42", "42:", "a:7", "-1:7"].iter().all(|text| text.parse::<NamespaceOwner>().is_err()));
    }

    #[test]
    fn a_process_that_took_the_pid_is_not_joined() {
        let stranger = NamespaceOwner { pid: std::process::id(), start_time: 1 };
        assert_eq!(open(stranger).err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    }
}
