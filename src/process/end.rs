//! Terminates all processes of a workspace, a run or a terminal: TERM first, then freeze and KILL.

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

/// Time limits for the steps of a termination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndLimits {
    /// From TERM to the next step.
    pub term: Duration,
    /// From the first KILL until processes that the kernel does not end are reported.
    pub kill: Duration,
}

/// Ends every process that carries the marker and their relatives, until none is left; returns how many there were.
/// Processes that survive KILL are an error that names them.
pub async fn end_tree(marker: &Marker, limits: EndLimits) -> io::Result<usize> {
    Termination::new(ProcessSet::marked(marker.clone()), Signal::TERM).end(limits).await
}

/// The same, for processes whose topmost ones must end first: a program may take the death of its child for a
/// result. The leader and its group are found even if no environment can be read.
pub(crate) async fn end_from_top(
    marker: Marker,
    leader: Option<ProcessId>,
    limits: EndLimits,
) -> io::Result<usize> {
    let mut termination = Termination::new(ProcessSet::marked_or_led(marker, leader), Signal::TERM);
    match termination.terminate_top(Instant::now() + limits.term).await? {
        TopProcesses::None => Ok(0),
        TopProcesses::Some => termination.end(limits).await,
    }
}

/// Ends the remaining processes of the session that this process leads. Processes that moved to another session
/// live on, as under a real Coder agent.
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

/// A running child of this process, if any.
pub(crate) fn child_of(parent: u32) -> io::Result<Option<u32>> {
    let mut running = Listing::read()?.running.into_iter();
    Ok(running.find(|stat| stat.parent == parent).map(|stat| stat.pid))
}

/// Whether there was any process to signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TopProcesses {
    Some,
    None,
}

struct Termination {
    processes: ProcessSet,
    first_signal: Signal,
    /// All processes ever found; each counts once.
    found: HashSet<ProcessId>,
}

impl Termination {
    fn new(processes: ProcessSet, first_signal: Signal) -> Self {
        Self { processes, first_signal, found: HashSet::new() }
    }

    async fn end(mut self, limits: EndLimits) -> io::Result<usize> {
        let left = self.terminate(Instant::now() + limits.term).await?;
        let (deadline, half) = (Instant::now() + limits.kill, limits.kill / 2);
        let mut left = self.end_namespaces(left, Instant::now() + half).await?;
        // An outside process that does not reap its child inside keeps the whole namespace alive, so the rest gets
        // KILL and time to end in any case.
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

    /// Sends TERM to the processes that none of the others has started, and waits for their end.
    async fn terminate_top(&mut self, deadline: Instant) -> io::Result<TopProcesses> {
        let members = self.processes.look().await?;
        if members.is_empty() {
            return Ok(TopProcesses::None);
        }
        let top = top_of(&members);
        self.found.extend(&top);
        self.request(&top)?;
        all_exited(&top, deadline).await?;
        Ok(TopProcesses::Some)
    }

    fn request(&self, processes: &[ProcessId]) -> io::Result<()> {
        for process in processes {
            signal(process, self.first_signal)?;
            // A stopped process handles signals only after CONT.
            signal(process, Signal::CONT)?;
        }
        Ok(())
    }

    /// Sends TERM once to each process, including new ones; returns those that remain. Some programs abort at a
    /// second TERM.
    async fn terminate(&mut self, deadline: Instant) -> io::Result<Vec<ProcessId>> {
        loop {
            let (left, fresh) = self.look().await?;
            self.request(&fresh)?;
            if left.is_empty() || !all_exited(&left, deadline).await? {
                return Ok(left);
            }
        }
    }

    /// Kills the init processes of PID namespaces, with which the kernel ends everything inside; returns the
    /// remaining processes. None is frozen before: the kernel waits until outside processes have reaped the others.
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

    /// Stops all of them, including new children, so that none can escape while the others die; returns the current
    /// ones.
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

    /// Kills them; returns those that remain.
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

    /// The current processes, and those among them that are new.
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

/// Names the processes and the remedy.
async fn survivors(left: &[ProcessId]) -> io::Error {
    let pids: Vec<u32> = left.iter().map(|process| process.pid).collect();
    let named = pids.iter().map(u32::to_string).collect::<Vec<String>>().join(", ");
    match spawn_blocking(move || fuse::remedy(&pids)).await {
        Ok(remedy) => {
            io::Error::new(io::ErrorKind::TimedOut, format!("processes cannot be killed: {named}; {remedy}"))
        }
        Err(error) => io::Error::other(error),
    }
}
