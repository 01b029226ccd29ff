//! The process table with the mark of every process, read once for all concurrent callers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::{io, process};

use super::mark::{Mark, Owner};
use super::namespace::{Namespace, Nesting};
use super::reading;
use super::stat::{Listing, Stat};

static SHARED: Mutex<Shared> = Mutex::new(Shared { latest: None, is_being_read: false });
static READ: Condvar = Condvar::new();
/// At most this many processes are named.
const MOST_NAMED: usize = 16;

/// The last table, and whether a caller is reading the next one.
struct Shared {
    latest: Option<Arc<Table>>,
    is_being_read: bool,
}

/// The process table without this process and its ancestors.
#[derive(Debug)]
pub(super) struct Table {
    begun_at: Instant,
    key: String,
    pub(super) stats: Vec<Stat>,
    marks: HashMap<u32, Mark>,
    /// The PID namespace of each process below our own namespace.
    inside: HashMap<u32, Namespace>,
    /// The PID namespace that a process in ours has for its children, if it is another one.
    made: HashMap<u32, Namespace>,
    running: HashSet<u32>,
    ended: HashSet<u32>,
    /// Our own session and group, and all our ancestors.
    excluded: HashSet<u32>,
}

impl Table {
    /// A table whose reading began after that moment, with the values of this variable. Many workspaces that end
    /// together read repeatedly: a caller that waited for another one shares the next table.
    pub(super) fn since(asked_at: Instant, key: &str) -> io::Result<Arc<Self>> {
        let must_wait = |shared: &mut Shared| shared.serving(asked_at, key).is_none() && shared.is_being_read;
        let mut shared = READ.wait_while(shared(), must_wait).unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = shared.serving(asked_at, key) {
            return Ok(table);
        }
        shared.is_being_read = true;
        drop(shared);
        let turn = ReadTurn;
        let table = Arc::new(Self::read(key)?);
        turn.end_with(&table);
        Ok(table)
    }

    pub(super) fn is_marked(&self, pid: u32, value: &str) -> bool {
        matches!(self.marks.get(&pid), Some(Mark::Value(known)) if known == value)
    }

    /// Every value of the variable.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.marks.values().filter_map(|mark| match mark {
            Mark::Value(value) => Some(value.as_str()),
            Mark::Absent | Mark::Unclear | Mark::Unread => None,
        })
    }

    /// The processes that might belong to anything, or have left an unlisted child.
    pub(super) fn unclear(&self) -> HashSet<u32> {
        let unclear = self.marks.iter().filter(|(_, mark)| **mark == Mark::Unclear);
        unclear.map(|(pid, _)| *pid).chain(self.ended.iter().copied()).collect()
    }

    /// Why some processes were not read, if any. Each of them may belong to anything.
    pub(super) fn unread(&self) -> Option<io::Error> {
        let of =
            |wanted: Mark| self.marks.iter().filter(move |(_, mark)| **mark == wanted).map(|(pid, _)| *pid);
        of(Mark::Unread).next()?;
        let mut stuck: Vec<u32> = of(Mark::Unclear).collect();
        stuck.sort_unstable();
        let named: Vec<String> = stuck.iter().take(MOST_NAMED).map(u32::to_string).collect();
        Some(io::Error::other(format!(
            "too many processes let no other process read their environment; kill them, then try again: {}",
            named.join(", ")
        )))
    }

    /// A session or group with a process of the workspace belongs to the workspace if its leader does, or is gone.
    /// Under a foreign leader (a person who exported the marker in a terminal) only the marked processes belong to
    /// it.
    pub(super) fn may_lead(&self, leader: u32, found: &HashSet<u32>) -> bool {
        !self.excluded.contains(&leader) && (found.contains(&leader) || !self.running.contains(&leader))
    }

    /// The PID namespaces that these processes are in or have made.
    pub(super) fn namespaces(&self, found: &HashSet<u32>) -> HashSet<&Namespace> {
        found.iter().filter_map(|pid| self.inside.get(pid).or_else(|| self.made.get(pid))).collect()
    }

    pub(super) fn is_inside(&self, pid: u32, namespaces: &HashSet<&Namespace>) -> bool {
        self.inside.get(&pid).is_some_and(|namespace| namespaces.contains(namespace))
    }

    /// The effects of a caller are visible only in a table whose reading began afterwards.
    fn serves(&self, asked_at: Instant, key: &str) -> bool {
        self.begun_at >= asked_at && self.key == key
    }

    fn read(key: &str) -> io::Result<Self> {
        let begun_at = Instant::now();
        let Listing { running: all, ended } = Listing::read()?;
        let above = self_and_ancestors(&all);
        let running = all.iter().map(|stat| stat.pid).collect();
        let excluded = above.iter().flat_map(|stat| [stat.pid, stat.session, stat.group]).collect();
        let stats: Vec<Stat> = all.into_iter().filter(|stat| !above.contains(stat)).collect();
        let Classified { mut marks, inside, made, to_read } = Classified::of(&stats)?;
        marks.extend(reading::marks(to_read, key)?);
        let key = key.to_owned();
        Ok(Self { begun_at, key, stats, marks, inside, made, running, ended, excluded })
    }
}

impl Shared {
    fn serving(&self, asked_at: Instant, key: &str) -> Option<Arc<Table>> {
        self.latest.as_ref().filter(|table| table.serves(asked_at, key)).map(Arc::clone)
    }
}

fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One caller's turn to read; the lock is free meanwhile.
struct ReadTurn;

impl ReadTurn {
    fn end_with(self, table: &Arc<Table>) {
        shared().latest = Some(Arc::clone(table));
    }
}

impl Drop for ReadTurn {
    fn drop(&mut self) {
        shared().is_being_read = false;
        READ.notify_all();
    }
}

/// Processes, classified before any environment is read.
#[derive(Default)]
struct Classified {
    marks: HashMap<u32, Mark>,
    inside: HashMap<u32, Namespace>,
    made: HashMap<u32, Namespace>,
    to_read: Vec<Stat>,
}

impl Classified {
    fn of(stats: &[Stat]) -> io::Result<Self> {
        let ours = Namespace::ours();
        let mut sorted = Self::default();
        for stat in stats {
            // Where we are root, the threads of the kernel are ours too.
            let owner = if stat.is_of_kernel { Owner::Other } else { Owner::of(stat.pid)? };
            match owner {
                Owner::Ourselves => sorted.add(stat, ours.as_ref()),
                Owner::Other => drop(sorted.marks.insert(stat.pid, Mark::Absent)),
                Owner::Gone => drop(sorted.marks.insert(stat.pid, Mark::Unclear)),
            }
        }
        Ok(sorted)
    }

    /// A process in a PID namespace belongs to that namespace's init, and only the init is read: an agent's
    /// processes in its namespace cannot block us.
    fn add(&mut self, stat: &Stat, ours: Option<&Namespace>) {
        let namespace = Namespace::of(stat.pid);
        // The status of a process is the longest text that the kernel writes of it: read where the name does not tell.
        let is_beside = ours.is_some() && namespace.as_ref() == ours;
        let nesting = if is_beside { Nesting::Beside } else { Nesting::of(stat.pid) };
        match nesting {
            Nesting::Beside => {
                let made = Namespace::of_children(stat.pid).filter(|made| Some(made) != ours);
                self.made.extend(made.map(|made| (stat.pid, made)));
            }
            Nesting::First | Nesting::Below => {
                self.inside.extend(namespace.map(|namespace| (stat.pid, namespace)));
            }
        }
        match nesting {
            Nesting::Beside | Nesting::First => self.to_read.push(*stat),
            Nesting::Below => drop(self.marks.insert(stat.pid, Mark::Absent)),
        }
    }
}

fn self_and_ancestors(all: &[Stat]) -> Vec<Stat> {
    let mut above = Vec::new();
    let mut pid = process::id();
    while let Some(stat) = all.iter().find(|stat| stat.pid == pid) {
        above.push(*stat);
        pid = stat.parent;
    }
    above
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_serves_only_requests_from_before_it_began() {
        let before = Instant::now();
        let table = Table::read("FLEET_WORKSPACE").unwrap();
        let after = Instant::now();
        let serves = [(before, "FLEET_WORKSPACE"), (after, "FLEET_WORKSPACE"), (before, "FLEET_OTHER")];
        assert_eq!(serves.map(|(asked_at, key)| table.serves(asked_at, key)), [true, false, false]);
    }
}
