//! Ends all processes of a workspace, of a run or of a terminal: asks first, then freezes and kills what is left.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use futures_util::future::try_join_all;
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::identity::{boot_id, signal};
use super::namespace::Nesting;
use super::set::{Member, ProcessSet};
use super::stat::{Listing, Stat};
use super::{Marker, ProcessId, exited, fuse};

/// How long the steps of ending may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndLimits {
    /// From a polite signal to the next step.
    pub term: Duration,
    /// From the first kill until we give up on processes that the kernel does not let go.
    pub kill: Duration,
}

/// Ends every process that carries the marker and all that hang on those, until none is left; says how many
/// there were. Processes that outlive even a kill are an error that names them.
pub async fn end_tree(marker: &Marker, limits: EndLimits) -> io::Result<usize> {
    Termination::new(ProcessSet::marked(marker.clone()), Signal::TERM).end(limits).await
}

/// The same for processes of which the topmost go before the rest: a program whose child ends under it could take that for
/// an answer. The leader and its group are known also where no environment can be read.
pub(crate) async fn end_from_top(
    marker: Marker,
    leader: Option<ProcessId>,
    limits: EndLimits,
) -> io::Result<usize> {
    let mut termination = Termination::new(ProcessSet::marked_or_led(marker, leader), Signal::TERM);
    match termination.ask_top(Instant::now() + limits.term).await? {
        Asked::Nobody => Ok(0),
        Asked::Some => termination.end(limits).await,
    }
}

/// Ends what is left of the session that this process leads. A process that moved to another session lives on, as
/// under a real Coder agent.
pub(crate) async fn end_session(leader: u32, limits: EndLimits) -> io::Result<usize> {
    Termination::new(ProcessSet::session(leader), Signal::HUP).end(limits).await
}

/// Kills exactly this process, if it still runs.
pub(crate) fn kill(pid: u32) -> io::Result<()> {
    let stat = Stat::of(pid)?.filter(|stat| stat.is_running);
    match stat {
        Some(stat) => signal(&ProcessId::from_stat(&stat, boot_id()?), Signal::KILL),
        None => Ok(()),
    }
}

/// A process that this one has started, if any runs.
pub(crate) fn child_of(parent: u32) -> io::Result<Option<u32>> {
    let mut running = Listing::read()?.running.into_iter();
    Ok(running.find(|stat| stat.parent == parent).map(|stat| stat.pid))
}

/// Whether there was any process to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Some,
    Nobody,
}

struct Termination {
    processes: ProcessSet,
    polite: Signal,
    /// All that were ever found; each counts once.
    found: HashSet<ProcessId>,
}

impl Termination {
    fn new(processes: ProcessSet, polite: Signal) -> Self {
        Self { processes, polite, found: HashSet::new() }
    }

    async fn end(mut self, limits: EndLimits) -> io::Result<usize> {
        let left = self.ask(Instant::now() + limits.term).await?;
        let (deadline, half) = (Instant::now() + limits.kill, limits.kill / 2);
        let mut left = self.end_namespaces(left, Instant::now() + half).await?;
        // A process outside that does not reap its child inside keeps the whole namespace, so that the rest gets a kill and
        // time to end in any case.
        let deadline = deadline.max(Instant::now() + half);
        while !left.is_empty() {
            left = self.freeze(left, deadline).await?;
            left = self.kill(left, deadline).await?;
            if !left.is_empty() && Instant::now() >= deadline {
                return Err(survivors(&left).await);
            }
        }
        Ok(self.found.len())
    }

    /// Sends the polite signal to the processes that none of the others has started, and waits for their end.
    async fn ask_top(&mut self, deadline: Instant) -> io::Result<Asked> {
        let members = self.processes.look().await?;
        if members.is_empty() {
            return Ok(Asked::Nobody);
        }
        let top = top_of(&members);
        self.found.extend(&top);
        self.request(&top)?;
        all_exited(&top, deadline).await?;
        Ok(Asked::Some)
    }

    fn request(&self, processes: &[ProcessId]) -> io::Result<()> {
        for process in processes {
            signal(process, self.polite)?;
            // A stopped process takes no signal until it goes on.
            signal(process, Signal::CONT)?;
        }
        Ok(())
    }

    /// Sends the polite signal once to each process, and to those that appear meanwhile; returns those that stay. Some
    /// programs take a second request for an order to drop everything.
    async fn ask(&mut self, deadline: Instant) -> io::Result<Vec<ProcessId>> {
        loop {
            let (left, fresh) = self.look().await?;
            self.request(&fresh)?;
            if left.is_empty() || !all_exited(&left, deadline).await? {
                return Ok(left);
            }
        }
    }

    /// Kills the first processes of PID namespaces, with which the kernel ends all that are inside; returns who is left.
    /// None is stopped before: the kernel waits until the others were collected by processes outside.
    async fn end_namespaces(
        &mut self,
        left: Vec<ProcessId>,
        deadline: Instant,
    ) -> io::Result<Vec<ProcessId>> {
        let firsts: Vec<ProcessId> = left.iter().copied().filter(is_first).collect();
        if firsts.is_empty() {
            return Ok(left);
        }
        for process in &firsts {
            signal(process, Signal::KILL)?;
        }
        all_exited(&left, deadline).await?;
        Ok(self.look().await?.0)
    }

    /// Stops all of them, and those they forked meanwhile, so that none can slip away while the others die; returns those
    /// that are there.
    async fn freeze(&mut self, first: Vec<ProcessId>, deadline: Instant) -> io::Result<Vec<ProcessId>> {
        let mut running = first;
        loop {
            for process in &running {
                signal(process, Signal::STOP)?;
            }
            let (left, fresh) = self.look().await?;
            if fresh.is_empty() || Instant::now() >= deadline {
                return Ok(left);
            }
            running = fresh;
        }
    }

    /// Kills them; returns those that are there afterwards.
    async fn kill(&mut self, left: Vec<ProcessId>, deadline: Instant) -> io::Result<Vec<ProcessId>> {
        if left.is_empty() {
            return Ok(left);
        }
        for process in &left {
            signal(process, Signal::KILL)?;
        }
        all_exited(&left, deadline).await?;
        Ok(self.look().await?.0)
    }

    /// The processes that are there now, and those of them that were never seen before.
    async fn look(&mut self) -> io::Result<(Vec<ProcessId>, Vec<ProcessId>)> {
        let left: Vec<ProcessId> = self.processes.look().await?.into_iter().map(|member| member.id).collect();
        let fresh = left.iter().copied().filter(|process| self.found.insert(*process)).collect();
        Ok((left, fresh))
    }
}

/// Those that none of the others has started.
fn top_of(members: &[Member]) -> Vec<ProcessId> {
    let is_below = |member: &&Member| members.iter().any(|other| other.id.pid == member.parent);
    members.iter().filter(|member| !is_below(member)).map(|member| member.id).collect()
}

fn is_first(process: &ProcessId) -> bool {
    Nesting::of(process.pid) == Nesting::First
}

/// Whether all of them ended before the deadline.
async fn all_exited(processes: &[ProcessId], deadline: Instant) -> io::Result<bool> {
    match timeout_at(deadline, try_join_all(processes.iter().map(exited))).await {
        Ok(ended) => ended.map(|_| Instant::now() < deadline),
        Err(_elapsed) => Ok(false),
    }
}

/// Names the processes, and what to do about them.
async fn survivors(left: &[ProcessId]) -> io::Error {
    let pids: Vec<u32> = left.iter().map(|process| process.pid).collect();
    let named = pids.iter().map(u32::to_string).collect::<Vec<String>>().join(", ");
    match spawn_blocking(move || fuse::remedy(&pids)).await {
        Ok(remedy) => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("processes that cannot be killed: {named}; {remedy}"),
        ),
        Err(error) => io::Error::other(error),
    }
}
