//! Finds every process of a workspace, also those that changed parent, session, group or environment.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use std::{fs, io, process, thread};

use rustix::process::geteuid;

use super::ProcessId;
use super::identity::boot_id;
use super::stat::{Listing, Stat};

/// The environment variable by which the processes of one workspace are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    pub key: String,
    pub value: String,
}

/// The processes that carry the marker and those that hang on them.
pub fn find(marker: &Marker) -> io::Result<Vec<ProcessId>> {
    Tree::new(marker.clone()).look()
}

/// On a machine where processes come and go all the time, enough is enough.
const MOST_LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// What is known of a workspace's processes; looking again adds to it.
///
/// Memory matters: a process whose marked parent is gone, and that cleared its own environment, is known only
/// from an earlier look.
#[derive(Debug)]
pub(super) struct Tree {
    marker: Marker,
    known: HashSet<ProcessId>,
    /// Sessions and groups in which processes of the workspace were seen, by the pid of their leader.
    led: HashSet<u32>,
}

impl Tree {
    pub(super) fn new(marker: Marker) -> Self {
        Self { marker, known: HashSet::new(), led: HashSet::new() }
    }

    /// All processes of the workspace that run now, ordered by pid.
    ///
    /// That there are none is believed only of a look that missed nobody: one that forks and ends while we read
    /// the table shows neither itself nor its child.
    pub(super) fn look(&mut self) -> io::Result<Vec<ProcessId>> {
        let mut unclear = HashSet::new();
        for _ in 0..MOST_LOOKS {
            let seen = self.look_once()?;
            if !seen.members.is_empty() || seen.unclear.is_subset(&unclear) {
                return Ok(seen.members);
            }
            unclear = seen.unclear;
            thread::sleep(PAUSE);
        }
        Ok(Vec::new())
    }

    fn look_once(&mut self) -> io::Result<Seen> {
        let boot_id = boot_id()?;
        let table = Table::read()?;
        let (mut found, mut unclear) = (HashSet::new(), table.ended.clone());
        for stat in &table.stats {
            let process = ProcessId::from_stat(stat, boot_id);
            let is_known = self.known.contains(&process);
            match if is_known { Sight::Marked } else { sight(stat.pid, &self.marker) } {
                Sight::Marked => found.extend([stat.pid]),
                Sight::Unclear => unclear.extend([stat.pid]),
                Sight::Unmarked => {}
            }
        }
        let found = self.complete(&table, found);
        let members = table.stats.iter().filter(|stat| found.contains(&stat.pid));
        let mut members: Vec<ProcessId> = members.map(|stat| ProcessId::from_stat(stat, boot_id)).collect();
        members.sort_by_key(|process| process.pid);
        self.known.extend(&members);
        Ok(Seen { members, unclear })
    }

    /// Adds what hangs on the processes found so far until nothing more does.
    fn complete(&mut self, table: &Table, mut found: HashSet<u32>) -> HashSet<u32> {
        loop {
            let n_before = found.len();
            let members = table.stats.iter().filter(|stat| found.contains(&stat.pid));
            self.led.extend(members.flat_map(|stat| [stat.session, stat.group]));
            let is_ours = |leader| self.led.contains(&leader) && table.may_lead(leader, &found);
            let joins =
                |stat: &&Stat| found.contains(&stat.parent) || is_ours(stat.session) || is_ours(stat.group);
            let joining: Vec<u32> = table.stats.iter().filter(joins).map(|stat| stat.pid).collect();
            found.extend(joining);
            if found.len() == n_before {
                return found;
            }
        }
    }
}

/// What one look at the table gave.
struct Seen {
    members: Vec<ProcessId>,
    /// Ended before we could look at them, or are just becoming another program. Those that were so at the look
    /// before are only slow to be noticed, or have no environment at all.
    unclear: HashSet<u32>,
}

/// What the environment of a process says.
enum Sight {
    Marked,
    Unmarked,
    Unclear,
}

/// The process table without ourselves and those above us.
struct Table {
    stats: Vec<Stat>,
    running: HashSet<u32>,
    ended: HashSet<u32>,
    /// Our own session and group, and every process we descend from.
    spared: HashSet<u32>,
}

impl Table {
    fn read() -> io::Result<Self> {
        let Listing { running: all, ended } = Listing::read()?;
        let above = ourselves_and_above(&all);
        let running = all.iter().map(|stat| stat.pid).collect();
        let spared = above.iter().flat_map(|stat| [stat.pid, stat.session, stat.group]).collect();
        let stats = all.into_iter().filter(|stat| !above.contains(stat)).collect();
        Ok(Self { stats, running, ended, spared })
    }

    /// A session or group with a process of the workspace in it is the workspace's when its leader is, or is
    /// gone. With someone else's leader (a person who exported the marker in a terminal) only the marked
    /// processes in it are.
    fn may_lead(&self, leader: u32, found: &HashSet<u32>) -> bool {
        !self.spared.contains(&leader) && (found.contains(&leader) || !self.running.contains(&leader))
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

/// Whether a process of our own user was started with the marker in its environment.
fn sight(pid: u32, marker: &Marker) -> Sight {
    let folder = format!("/proc/{pid}");
    match fs::metadata(&folder) {
        Ok(folder) if folder.uid() == geteuid().as_raw() => {}
        Ok(_) => return Sight::Unmarked,
        Err(_) => return Sight::Unclear,
    }
    let entry = format!("{}={}", marker.key, marker.value);
    match fs::read(format!("{folder}/environ")) {
        Ok(environment) if environment.is_empty() => Sight::Unclear,
        Ok(environment) if environment.split(|byte| *byte == 0).any(|e| e == entry.as_bytes()) => {
            Sight::Marked
        }
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Sight::Unclear,
        Ok(_) | Err(_) => Sight::Unmarked,
    }
}
