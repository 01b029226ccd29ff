//! Finds every process of a workspace, including those that changed parent, session, group or environment.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::ProcessId;
use super::identity::boot_id;
use super::set::Member;
use super::stat::Stat;
use super::table::Table;

/// The environment variable that marks the processes of one workspace or run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    pub key: String,
    pub value: String,
}

/// The processes that carry the marker, and their relatives.
pub fn find(marker: &Marker) -> io::Result<Vec<ProcessId>> {
    Ok(Tree::new(marker.clone()).look()?.into_iter().map(|member| member.id).collect())
}

/// The values of the marker's variable in all processes: every workspace with a running process.
pub(crate) fn marked(key: &str) -> io::Result<Marked> {
    let (mut marked, mut unclear) = (Marked::default(), HashSet::new());
    for _ in 0..MOST_LOOKS {
        let table = Table::since(Instant::now(), key)?;
        marked.values.extend(table.values().map(str::to_owned));
        marked.unread = table.unread();
        let still_unclear = table.unclear();
        if still_unclear.is_subset(&unclear) {
            break;
        }
        unclear = still_unclear;
        thread::sleep(PAUSE);
    }
    Ok(marked)
}

/// The values that were found.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    pub(crate) values: HashSet<String>,
    /// Why there may be more.
    pub(crate) unread: Option<io::Error>,
}

/// Bounds the reads on a machine where processes constantly start and end.
const MOST_LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The known processes of a workspace; each look adds to them.
///
/// Memory matters: a process whose marked parent is gone, and that cleared its own environment, is known only from
/// an earlier look.
#[derive(Debug)]
pub(super) struct Tree {
    marker: Marker,
    known: HashSet<ProcessId>,
    /// Sessions and groups that contained processes of the workspace, by the pid of their leader.
    led: HashSet<u32>,
}

impl Tree {
    pub(super) fn new(marker: Marker) -> Self {
        Self { marker, known: HashSet::new(), led: HashSet::new() }
    }

    /// Adds this process and the group that it leads.
    pub(super) fn add_leader(&mut self, leader: ProcessId) {
        self.known.insert(leader);
        self.led.insert(leader.pid);
    }

    /// All running processes of the workspace, ordered by pid.
    ///
    /// An empty result is believed only if the look was complete: a process that forks and ends while the table is
    /// read shows neither itself nor its child. If processes are unread, an empty result is an error.
    pub(super) fn look(&mut self) -> io::Result<Vec<Member>> {
        let (mut unclear, mut unread) = (HashSet::new(), None);
        for _ in 0..MOST_LOOKS {
            let seen = self.look_once()?;
            if !seen.members.is_empty() {
                return Ok(seen.members);
            }
            unread = seen.unread;
            if seen.unclear.is_subset(&unclear) {
                break;
            }
            unclear = seen.unclear;
            thread::sleep(PAUSE);
        }
        unread.map_or(Ok(Vec::new()), Err)
    }

    fn look_once(&mut self) -> io::Result<Look> {
        let boot_id = boot_id()?;
        let table = Table::since(Instant::now(), &self.marker.key)?;
        let is_known = |stat: &Stat| self.known.contains(&ProcessId::from_stat(stat, boot_id));
        let is_found = |stat: &&Stat| is_known(stat) || table.is_marked(stat.pid, &self.marker.value);
        let found = table.stats.iter().filter(is_found).map(|stat| stat.pid).collect();
        let found = self.complete(&table, found);
        let members = table.stats.iter().filter(|stat| found.contains(&stat.pid));
        let mut members: Vec<Member> = members.map(|stat| Member::of(stat, boot_id)).collect();
        members.sort_by_key(|member| member.id.pid);
        self.known.extend(members.iter().map(|member| member.id));
        Ok(Look { members, unclear: table.unclear(), unread: table.unread() })
    }

    /// Adds relatives of the processes found so far until there are no more.
    fn complete(&mut self, table: &Table, mut found: HashSet<u32>) -> HashSet<u32> {
        loop {
            let n_before = found.len();
            let members = table.stats.iter().filter(|stat| found.contains(&stat.pid));
            self.led.extend(members.flat_map(|stat| [stat.session, stat.group]));
            let is_ours = |leader| self.led.contains(&leader) && table.may_lead(leader, &found);
            let namespaces = table.namespaces(&found);
            let is_led = |stat: &Stat| is_ours(stat.session) || is_ours(stat.group);
            let is_inside = |stat: &Stat| table.is_inside(stat.pid, &namespaces);
            let joins = |stat: &&Stat| found.contains(&stat.parent) || is_led(stat) || is_inside(stat);
            let joining: Vec<u32> = table.stats.iter().filter(joins).map(|stat| stat.pid).collect();
            found.extend(joining);
            if found.len() == n_before {
                return found;
            }
        }
    }
}

/// The result of one look at the table.
struct Look {
    members: Vec<Member>,
    /// Ended before they were read, or are just executing another program. Processes that were already unclear in
    /// the previous look are slow to be reaped, have no environment, or let no process read it.
    unclear: HashSet<u32>,
    /// Why other processes were not read.
    unread: Option<io::Error>,
}
