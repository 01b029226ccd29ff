//! Ends all processes of a workspace or of a terminal: asks first, then freezes and kills what is left.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use futures_util::future::try_join_all;
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::identity::{boot_id, signal};
use super::stat::{Listing, Stat, is_first};
use super::tree::Tree;
use super::{Marker, ProcessId, exited};

/// How long the steps of ending may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndLimits {
    /// From the polite signal to the first kill.
    pub term: Duration,
    /// From the first kill until we give up on processes that the kernel does not let go.
    pub kill: Duration,
}

/// Ends every process that carries the marker and all that hang on those, until none is left; says how many
/// there were. Processes that outlive even a kill are an error that names them.
pub async fn end_tree(marker: &Marker, limits: EndLimits) -> io::Result<usize> {
    Hunt::new(Quarry::Tree(Tree::new(marker.clone())), Signal::TERM).end(limits).await
}

/// Ends what is left of the session that this process leads. Whoever moved to another session lives on, as
/// under a real Coder agent.
pub(in crate::local) async fn end_session(leader: u32, limits: EndLimits) -> io::Result<usize> {
    Hunt::new(Quarry::Session(leader), Signal::HUP).end(limits).await
}

/// Kills exactly this process, if it still runs.
pub(in crate::local) fn kill(pid: u32) -> io::Result<()> {
    let stat = Stat::of(pid)?.filter(|stat| stat.is_running);
    match stat {
        Some(stat) => signal(&ProcessId::from_stat(&stat, boot_id()?), Signal::KILL),
        None => Ok(()),
    }
}

/// A process that this one has started, if any runs.
pub(in crate::local) fn child_of(parent: u32) -> io::Result<Option<u32>> {
    let mut running = Listing::read()?.running.into_iter();
    Ok(running.find(|stat| stat.parent == parent).map(|stat| stat.pid))
}

#[derive(Debug)]
enum Quarry {
    Tree(Tree),
    Session(u32),
}

impl Quarry {
    fn look(&mut self) -> io::Result<Vec<ProcessId>> {
        match self {
            Self::Tree(tree) => tree.look(),
            Self::Session(leader) => members(*leader),
        }
    }
}

fn members(session: u32) -> io::Result<Vec<ProcessId>> {
    let boot_id = boot_id()?;
    let stats = Listing::read()?.running.into_iter().filter(|stat| stat.session == session);
    Ok(stats.map(|stat| ProcessId::from_stat(&stat, boot_id)).collect())
}

struct Hunt {
    quarry: Option<Quarry>,
    polite: Signal,
    /// All that were ever found; each counts once.
    found: HashSet<ProcessId>,
}

impl Hunt {
    fn new(quarry: Quarry, polite: Signal) -> Self {
        Self { quarry: Some(quarry), polite, found: HashSet::new() }
    }

    async fn end(mut self, limits: EndLimits) -> io::Result<usize> {
        let left = self.ask(Instant::now() + limits.term).await?;
        let (deadline, half) = (Instant::now() + limits.kill, limits.kill / 2);
        let mut left = self.end_namespaces(left, Instant::now() + half).await?;
        // A process outside that does not reap its child inside keeps the whole namespace, so that the rest gets a kill and
        // time to end in any case.
        let deadline = deadline.max(Instant::now() + half);
        while !left.is_empty() {
            self.freeze(left, deadline).await?;
            left = self.kill(deadline).await?;
            if !left.is_empty() && Instant::now() >= deadline {
                return Err(survivors(&left));
            }
        }
        Ok(self.found.len())
    }

    /// Sends the polite signal once to each process, and to those that appear meanwhile; returns who stays.
    async fn ask(&mut self, deadline: Instant) -> io::Result<Vec<ProcessId>> {
        loop {
            let (left, fresh) = self.look().await?;
            for process in &fresh {
                signal(process, self.polite)?;
                // A stopped process takes no signal until it goes on.
                signal(process, Signal::CONT)?;
            }
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
        let firsts: Vec<ProcessId> = left.iter().copied().filter(|process| is_first(process.pid)).collect();
        if firsts.is_empty() {
            return Ok(left);
        }
        for process in &firsts {
            signal(process, Signal::KILL)?;
        }
        all_exited(&left, deadline).await?;
        Ok(self.look().await?.0)
    }

    /// Stops all of them, and those they forked meanwhile, so that none can slip away while the others die.
    async fn freeze(&mut self, first: Vec<ProcessId>, deadline: Instant) -> io::Result<()> {
        let mut running = first;
        while !running.is_empty() && Instant::now() < deadline {
            for process in &running {
                signal(process, Signal::STOP)?;
            }
            (_, running) = self.look().await?;
        }
        Ok(())
    }

    /// Kills all that are there; returns those that are there afterwards.
    async fn kill(&mut self, deadline: Instant) -> io::Result<Vec<ProcessId>> {
        let (left, _) = self.look().await?;
        for process in &left {
            signal(process, Signal::KILL)?;
        }
        all_exited(&left, deadline).await?;
        Ok(self.look().await?.0)
    }

    /// Who is there now, and who of them was never seen before.
    async fn look(&mut self) -> io::Result<(Vec<ProcessId>, Vec<ProcessId>)> {
        let taken = self.quarry.take().ok_or_else(|| io::Error::other("a search for processes broke off"))?;
        let (quarry, left) = spawn_blocking(move || looked(taken)).await.map_err(io::Error::other)?;
        self.quarry = Some(quarry);
        let left = left?;
        let fresh = left.iter().copied().filter(|process| self.found.insert(*process)).collect();
        Ok((left, fresh))
    }
}

fn looked(mut quarry: Quarry) -> (Quarry, io::Result<Vec<ProcessId>>) {
    let left = quarry.look();
    (quarry, left)
}

/// Whether all of them ended before the deadline.
async fn all_exited(processes: &[ProcessId], deadline: Instant) -> io::Result<bool> {
    match timeout_at(deadline, try_join_all(processes.iter().map(exited))).await {
        Ok(ended) => ended.map(|_| Instant::now() < deadline),
        Err(_elapsed) => Ok(false),
    }
}

fn survivors(left: &[ProcessId]) -> io::Error {
    let pids: Vec<String> = left.iter().map(|process| process.pid.to_string()).collect();
    io::Error::new(io::ErrorKind::TimedOut, format!("processes that cannot be killed: {}", pids.join(", ")))
}
