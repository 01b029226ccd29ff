//! PID namespaces below ours: which processes are in one, and which process creates one for its children.

use std::fs;
use std::path::PathBuf;

/// A PID namespace as the kernel names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Namespace(PathBuf);

/// The position of a process relative to our namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    /// In our own namespace.
    Beside,
    /// The init of a namespace directly below ours, with which the kernel ends all others in it.
    First,
    /// Any other process below our namespace.
    Below,
}

impl Nesting {
    /// A process that is gone counts as in our namespace.
    pub(super) fn of(pid: u32) -> Self {
        Self::in_status(&fs::read(format!("/proc/{pid}/status")).unwrap_or_default())
    }

    /// The status also contains the process's name, which need not be UTF-8.
    fn in_status(status: &[u8]) -> Self {
        let status = String::from_utf8_lossy(status);
        Self::parse(status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default())
    }

    /// The pids of a process, from our namespace down to its own.
    fn parse(pids: &str) -> Self {
        let below: Vec<&str> = pids.split_whitespace().skip(1).collect();
        match below[..] {
            [] => Self::Beside,
            ["1"] => Self::First,
            [..] => Self::Below,
        }
    }
}

impl Namespace {
    pub(super) fn ours() -> Option<Self> {
        Self::at("self", "pid")
    }

    /// The namespace of the process, if readable.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Self::at(&pid.to_string(), "pid")
    }

    /// The namespace in which children of the process start, if readable.
    pub(super) fn of_children(pid: u32) -> Option<Self> {
        Self::at(&pid.to_string(), "pid_for_children")
    }

    fn at(process: &str, name: &str) -> Option<Self> {
        fs::read_link(format!("/proc/{process}/ns/{name}")).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_hides_no_namespace() {
        assert_eq!(Nesting::in_status(b"Name:\t\xff\xfe\nNSpid:\t7\t4\n"), Nesting::Below);
    }

    #[test]
    fn only_the_first_process_directly_below_us_is_first() {
        let nestings = ["\t7", "\t7\t1", "\t7\t4", "\t7\t4\t1", ""].map(Nesting::parse);
        use Nesting::{Below, Beside, First};
        assert_eq!(nestings, [Beside, First, Below, Below, Beside]);
    }
}
