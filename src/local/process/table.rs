//! The process table with the mark of everybody in it, read once for all who ask at the same time.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use std::{fs, io, process};

use rustix::process::geteuid;

use super::stat::{Listing, Stat, is_out_of_sight};

const LONGEST_ENVIRONMENT: u64 = 8 * 1024 * 1024;
/// A path is the longest value that is looked for.
const LONGEST_VALUE: usize = 4 * 1024;

static LATEST: Mutex<Option<Arc<Table>>> = Mutex::new(None);

/// The process table without ourselves and those above us.
#[derive(Debug)]
pub(super) struct Table {
    begun_at: Instant,
    key: String,
    pub(super) stats: Vec<Stat>,
    marks: HashMap<u32, Mark>,
    running: HashSet<u32>,
    ended: HashSet<u32>,
    /// Our own session and group, and every process we descend from.
    spared: HashSet<u32>,
}

/// What the environment of a process says.
#[derive(Debug, PartialEq, Eq)]
enum Mark {
    /// The value of the variable, in a process of our own user.
    Value(String),
    Absent,
    /// It ended before we could look, or is just becoming another program.
    Unclear,
}

impl Table {
    /// A table whose reading began after that moment, with the values of this variable. Many workspaces that end
    /// together look again and again: whoever waited for another reader takes what the next one reads.
    pub(super) fn since(asked_at: Instant, key: &str) -> io::Result<Arc<Self>> {
        let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = latest.as_ref().filter(|table| table.serves(asked_at, key)) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(Self::read(key)?);
        *latest = Some(Arc::clone(&table));
        Ok(table)
    }

    pub(super) fn is_marked(&self, pid: u32, value: &str) -> bool {
        matches!(self.marks.get(&pid), Some(Mark::Value(known)) if known == value)
    }

    /// Every value of the variable.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.marks.values().filter_map(|mark| match mark {
            Mark::Value(value) => Some(value.as_str()),
            Mark::Absent | Mark::Unclear => None,
        })
    }

    /// Who might belong to anybody, or have left a child that is not listed.
    pub(super) fn unclear(&self) -> HashSet<u32> {
        let unclear = self.marks.iter().filter(|(_, mark)| **mark == Mark::Unclear);
        unclear.map(|(pid, _)| *pid).chain(self.ended.iter().copied()).collect()
    }

    /// A session or group with a process of the workspace in it is the workspace's when its leader is, or is
    /// gone. With someone else's leader (a person who exported the marker in a terminal) only the marked
    /// processes in it are.
    pub(super) fn may_lead(&self, leader: u32, found: &HashSet<u32>) -> bool {
        !self.spared.contains(&leader) && (found.contains(&leader) || !self.running.contains(&leader))
    }

    /// What somebody did before asking is seen only by a reading that began afterwards.
    fn serves(&self, asked_at: Instant, key: &str) -> bool {
        self.begun_at >= asked_at && self.key == key
    }

    fn read(key: &str) -> io::Result<Self> {
        let begun_at = Instant::now();
        let Listing { running: all, ended } = Listing::read()?;
        let above = ourselves_and_above(&all);
        let running = all.iter().map(|stat| stat.pid).collect();
        let spared = above.iter().flat_map(|stat| [stat.pid, stat.session, stat.group]).collect();
        let stats: Vec<Stat> = all.into_iter().filter(|stat| !above.contains(stat)).collect();
        let marks = stats.iter().map(|stat| Ok((stat.pid, mark(stat.pid, key)?)));
        let marks = marks.collect::<io::Result<_>>()?;
        Ok(Self { begun_at, key: key.to_owned(), stats, marks, running, ended, spared })
    }
}

fn ourselves_and_above(all: &[Stat]) -> Vec<Stat> {
    let mut above = Vec::new();
    let mut pid = process::id();
    while let Some(stat) = all.iter().find(|stat| stat.pid == pid) {
        above.push(*stat);
        pid = stat.parent;
    }
    above
}

/// With which value of the variable a process of our own user was started.
fn mark(pid: u32, key: &str) -> io::Result<Mark> {
    let folder = format!("/proc/{pid}");
    match fs::metadata(&folder) {
        Ok(folder) if folder.uid() == geteuid().as_raw() => {}
        Ok(_) => return Ok(Mark::Absent),
        Err(error) if is_out_of_sight(&error) => return Ok(Mark::Unclear),
        Err(error) => return Err(error),
    }
    match environment_of(&folder) {
        Ok(environment) if environment.is_empty() => Ok(Mark::Unclear),
        Ok(environment) => Ok(value(&environment, key).map_or(Mark::Absent, Mark::Value)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Mark::Absent),
        Err(error) if is_out_of_sight(&error) => Ok(Mark::Unclear),
        Err(error) => Err(error),
    }
}

/// What the kernel lets a program be started with fits; a process can show more of its memory as its environment.
fn environment_of(folder: &str) -> io::Result<Vec<u8>> {
    let mut environment = Vec::new();
    fs::File::open(format!("{folder}/environ"))?.take(LONGEST_ENVIRONMENT).read_to_end(&mut environment)?;
    Ok(environment)
}

/// A value that is longer than any marker counts as absent: an agent decides how long it is, and it is kept.
fn value(environment: &[u8], key: &str) -> Option<String> {
    let entries = environment.split(|byte| *byte == 0);
    let mut values = entries.filter_map(|entry| entry.strip_prefix(key.as_bytes())?.strip_prefix(b"="));
    let value = values.next().filter(|value| value.len() <= LONGEST_VALUE)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_serves_those_who_asked_before_it_began_and_nobody_later() {
        let before = Instant::now();
        let table = Table::read("FLEET_WORKSPACE").unwrap();
        let after = Instant::now();
        let serves = [(before, "FLEET_WORKSPACE"), (after, "FLEET_WORKSPACE"), (before, "FLEET_OTHER")];
        assert_eq!(serves.map(|(asked_at, key)| table.serves(asked_at, key)), [true, false, false]);
    }

    #[test]
    fn a_mark_is_the_value_of_exactly_that_variable() {
        let environment = b"PATH=/bin\0AFLEET=0\0FLEET_MORE=1\0FLEET=2\0FLEET=3\0";
        assert_eq!(value(environment, "FLEET"), Some("2".to_owned()));
        assert_eq!(value(environment, "FLEE"), None);
    }

    #[test]
    fn a_mark_that_is_longer_than_any_path_is_none() {
        let of_length =
            |length: usize| value(format!("A=1\0FLEET={}\0", "x".repeat(length)).as_bytes(), "FLEET");
        assert_eq!(of_length(4_096).map(|value| value.len()), Some(4_096));
        assert_eq!(of_length(4_097), None);
    }
}
