//! Ends every process of a run, wherever it went.
//!
//! A process group or session is not enough: engines start children in sessions of their own. The marker is inherited by
//! all of them; a process that clears its environment is known by its parent.

use std::io;
use std::time::Duration;

use rustix::process::Signal;

use crate::domain::id::RunId;
use crate::process::{Marker, Member, ProcessId, ProcessSet, signal};

/// The variable that every process of a run carries.
pub(super) const MARKER: &str = "FLEET_RUN";

/// What cannot be killed in this time is stuck in the kernel. What was found before is killed at once, and then two looks
/// fit in, also when each of them waits for a process that lets no other process read it. A stop of the workspace waits
/// for two of these.
const KILL_LIMIT: Duration = Duration::from_millis(2500);
const PAUSE: Duration = Duration::from_millis(10);

/// Ends every process of the run, also those that appear meanwhile, and returns when none is left.
///
/// First they are asked, because a process that is killed cleans nothing up: git would leave its locks behind,
/// and the next run could not commit. The topmost go before the rest: an engine whose command ends under it would
/// take that for an answer, and ask its model what to do next. The engine and its group are known by its number where
/// no environment can be read.
pub(crate) async fn end(run: RunId, engine: Option<ProcessId>, grace: Duration) {
    let marker = Marker { key: MARKER.to_owned(), value: run.to_string() };
    let processes = ProcessSet::marked_or_led(marker, engine);
    if let Err(error) = (Ending { processes, asked: Vec::new() }).end(grace).await {
        tracing::warn!(run.id = %run, %error, "some processes of the run may be left");
    }
}

struct Ending {
    processes: ProcessSet,
    /// Asked only once: some programs take a second TERM for an order to drop everything.
    asked: Vec<ProcessId>,
}

impl Ending {
    async fn end(mut self, grace: Duration) -> io::Result<()> {
        let found = self.processes.look().await?;
        if found.is_empty() {
            return Ok(());
        }
        self.ask(&top_of(&found))?;
        let top = self.asked.clone();
        let left = self.wait(grace, |left| !left.iter().any(|member| top.contains(&member.id))).await?;
        self.ask(&left)?;
        let left = self.wait(grace, <[Member]>::is_empty).await?;
        match tokio::time::timeout(KILL_LIMIT, self.kill(left)).await {
            Ok(killed) => killed,
            Err(_late) => Err(io::Error::new(io::ErrorKind::TimedOut, "they cannot be killed")),
        }
    }

    fn ask(&mut self, members: &[Member]) -> io::Result<()> {
        for member in members {
            if !self.asked.contains(&member.id) {
                signal(&member.id, Signal::TERM)?;
                self.asked.push(member.id);
            }
        }
        Ok(())
    }

    /// Waits until the processes that are left are few enough, but not longer than this; returns them.
    async fn wait(
        &mut self,
        grace: Duration,
        is_enough: impl Fn(&[Member]) -> bool,
    ) -> io::Result<Vec<Member>> {
        let deadline = tokio::time::Instant::now() + grace;
        loop {
            let left = self.processes.look().await?;
            if is_enough(&left) || tokio::time::Instant::now() >= deadline {
                return Ok(left);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Kills those of the last look before the next one, which can take a second.
    async fn kill(&mut self, mut left: Vec<Member>) -> io::Result<()> {
        while !left.is_empty() {
            for member in &left {
                signal(&member.id, Signal::KILL)?;
            }
            tokio::time::sleep(PAUSE).await;
            left = self.processes.look().await?;
        }
        Ok(())
    }
}

/// Those that none of the others has started.
fn top_of(members: &[Member]) -> Vec<Member> {
    let is_below = |member: &&Member| members.iter().any(|other| other.id.pid == member.parent);
    members.iter().filter(|member| !is_below(member)).copied().collect()
}
