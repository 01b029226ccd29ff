//! Reads the process table from `/proc`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::str;

use rustix::io::Errno;

/// `/proc/<pid>/stat` is one line of some fifty numbers, which the kernel gives in one read.
const LONGEST_LINE: usize = 4096;
/// PF_KTHREAD in the flags of a process.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// One line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    /// In clock ticks since the machine booted.
    pub(super) start_time: u64,
    /// False for a zombie, which has ended but is not yet reaped.
    pub(super) is_running: bool,
    /// A thread of the kernel runs no program: it has no environment and starts no process.
    pub(super) is_of_kernel: bool,
}

impl Stat {
    /// The current process with this pid, if any. A failed look, for want of descriptors or memory, is an error and
    /// tells nothing about it.
    pub(super) fn of(pid: u32) -> io::Result<Option<Self>> {
        let mut line = [0; LONGEST_LINE];
        match File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut line)) {
            Ok(length) => Ok(parse(pid, &line[..length])),
            Err(error) if is_out_of_sight(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether the process is gone, or hidden since it is another user's.
pub(super) fn is_out_of_sight(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// The process table as it was read.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) running: Vec<Stat>,
    /// Listed, but ended before they were read: any of them may have left an unlisted child.
    pub(super) ended: HashSet<u32>,
}

impl Listing {
    pub(super) fn read() -> io::Result<Self> {
        let names = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut listing = Self::default();
        for pid in names.filter_map(|name| name.parse().ok()) {
            match Stat::of(pid)?.filter(|stat| stat.is_running) {
                Some(stat) => listing.running.push(stat),
                None => listing.ended.extend([pid]),
            }
        }
        Ok(listing)
    }
}

/// The start time in a line of `/proc/<pid>/stat`, in clock ticks since the machine booted.
pub(crate) fn start_time(line: &str) -> Option<u64> {
    parse(0, line.as_bytes()).map(|stat| stat.start_time)
}

/// The program's name is second, in parentheses, and may itself contain spaces and parentheses: the fields are
/// counted from the last one.
fn parse(pid: u32, line: &[u8]) -> Option<Stat> {
    let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
    let after_name = str::from_utf8(&line[end_of_name + 1..]).ok()?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().take(20).collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let id = |index: usize| u32::try_from(number(index)?).ok();
    // A main thread that ended before its siblings looks like a zombie although the process continues.
    let has_ended = matches!(*fields.first()?, "Z" | "X" | "x") && number(17)? <= 1;
    Some(Stat {
        pid,
        parent: id(1)?,
        group: id(2)?,
        session: id(3)?,
        start_time: number(19)?,
        is_running: !has_ended,
        is_of_kernel: number(6)? & KERNEL_THREAD != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::{Stat, parse};

    fn user_process() -> Stat {
        Stat {
            pid: 41,
            parent: 7,
            group: 40,
            session: 39,
            start_time: 123_456,
            is_running: true,
            is_of_kernel: false,
        }
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = b"41 (a) R (b) S 7 40 39 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 0 0";
        assert_eq!(parse(41, line), Some(user_process()));
    }

    #[test]
    fn a_name_that_is_no_text_hides_no_process() {
        let line = b"41 (\xff\xfe) S 7 40 39 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 0 0";
        assert_eq!(parse(41, line), Some(user_process()));
    }

    #[test]
    fn a_thread_of_the_kernel_is_told_by_its_flags() {
        let line = |flags: u32| format!("2 (kthreadd) S 0 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0");
        let is_of_kernel = |flags| parse(2, line(flags).as_bytes()).map(|stat| stat.is_of_kernel);
        assert_eq!([2_129_984, 4_194_560].map(is_of_kernel), [Some(true), Some(false)]);
    }

    #[test]
    fn a_zombie_runs_only_while_it_has_threads() {
        let line = |threads: u32| format!("41 (a) Z 7 40 39 0 -1 0 1 0 0 0 0 0 0 0 20 0 {threads} 0 9 0 0");
        let is_running = |threads| parse(41, line(threads).as_bytes()).map(|stat| stat.is_running);
        assert_eq!((is_running(1), is_running(2)), (Some(false), Some(true)));
    }

    #[test]
    fn a_line_cut_short_is_no_process() {
        assert_eq!(parse(41, b"41 (a) R 7 40"), None);
    }
}
