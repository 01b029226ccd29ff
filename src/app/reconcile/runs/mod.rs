//! The follower of runs: finds what is open, follows each to its end, and clears it from its workspace.

mod follow;
mod record;

use std::collections::HashSet;
use std::time::Duration;

use chrono::Utc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks;
use crate::coder::exec::{ExecError, RunAddress};
use crate::domain::id::RunId;
use crate::domain::run::{Run, RunEnd, Verdict, Whereabouts};

/// How often to look for what could not be cleared or followed before.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Between two tries to reach a workspace, and between two looks at where it is.
const PAUSE: Duration = Duration::from_millis(500);

/// The runs that have a task of their own.
#[derive(Debug, Default)]
struct Following {
    ids: HashSet<RunId>,
    tasks: JoinSet<RunId>,
}

impl Fleet {
    pub(super) async fn runs_until(&self, stop: CancellationToken) {
        let mut wanted = self.0.runs.wanted();
        let mut again = tokio::time::interval(LOOK_AGAIN);
        let mut following = Following::default();
        loop {
            tokio::select! {
                _ = wanted.changed() => self.runs_begin(&mut following, &stop).await,
                _ = again.tick() => self.runs_begin(&mut following, &stop).await,
                // What ended without being cleared waits for the next tick.
                Some(ended) = following.tasks.join_next() => following.forget(ended.ok()),
                () = stop.cancelled() => break,
            }
        }
        while following.tasks.join_next().await.is_some() {}
    }

    /// Follows every open run that is not followed yet.
    async fn runs_begin(&self, following: &mut Following, stop: &CancellationToken) {
        let open = match self.store().runs_open().await {
            Ok(open) => open,
            Err(error) => return tracing::error!(%error, "open runs could not be read"),
        };
        for run in open {
            if following.ids.insert(run.id) {
                let (fleet, stop) = (self.clone(), stop.clone());
                following.tasks.spawn(async move { fleet.run_carry(run, stop).await });
            }
        }
    }

    /// Follows one run until it is over and cleared, or cannot be cleared now. Wherever this is broken off, the
    /// store and the workspace know where to go on.
    async fn run_carry(&self, run: Run, stop: CancellationToken) -> RunId {
        let id = run.id;
        self.0.runs.put(&run, None);
        tokio::select! {
            done = self.run_see_through(id) => if let Err(error) = done {
                tracing::error!(run.id = %id, %error, "a run could not be followed");
            },
            () = stop.cancelled() => {}
        }
        self.0.runs.forget(id);
        id
    }

    async fn run_see_through(&self, id: RunId) -> Result<(), Error> {
        loop {
            let run = self.run_show(id).await?;
            if run.is_ended() {
                return self.run_clear(&run).await;
            }
            match run.judge(self.whereabouts(&run), &self.clock()) {
                Verdict::Ask(agent) => self.run_follow(&run, agent).await?,
                Verdict::Wait => {}
                Verdict::End(end) => self.run_finish(&run, end).await?,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Records the end and tells those who wait.
    async fn run_finish(&self, run: &Run, end: RunEnd) -> Result<(), Error> {
        self.store().run_end(run.id, &end, Utc::now()).await?;
        hooks::point("run.ended");
        let ended = self.run_show(run.id).await?;
        tracing::info!(run.id = %run.id, run.purpose = run.purpose, %end, "a run is over");
        self.0.runs.publish(&ended);
        Ok(())
    }

    /// The result is stored, so the workspace may forget. What cannot be reached now is tried again later, and what
    /// is deleted has forgotten by itself.
    async fn run_clear(&self, run: &Run) -> Result<(), Error> {
        match self.whereabouts(run) {
            Whereabouts::Deleted => {}
            Whereabouts::Unseen | Whereabouts::Broken | Whereabouts::Seen { workspace_agent: None, .. } => {
                return Ok(());
            }
            Whereabouts::Seen { workspace_agent: Some(agent), .. } => {
                let address = address(run, agent);
                match self.coder().run_remove(&address).await {
                    Ok(()) => {}
                    // The row says that it is over, so it has to be.
                    Err(ExecError::Running) => {
                        let canceled = self.coder().run_cancel(&address).await;
                        tracing::warn!(run.id = %run.id, ?canceled, "a run outlived its record");
                        return Ok(());
                    }
                    Err(error) => {
                        tracing::debug!(run.id = %run.id, %error, "a run stays in its workspace for now");
                        return Ok(());
                    }
                }
            }
        }
        Ok(self.store().run_cleared(run.id).await?)
    }

    /// Where the run's workspace is, as the last look showed it.
    fn whereabouts(&self, run: &Run) -> Whereabouts {
        let snapshot = self.board().now();
        if snapshot.observed_at.is_none() {
            return Whereabouts::Unseen;
        }
        match snapshot.by_id(run.agent_id) {
            Some(state) if state.live.workspace_agent.is_none() && state.live.has_failed_start() => {
                Whereabouts::Broken
            }
            Some(state) => Whereabouts::Seen {
                status: state.agent.sighting.status,
                workspace_agent: state.live.workspace_agent,
            },
            None => Whereabouts::Deleted,
        }
    }
}

impl Following {
    /// A task that panicked names no run: then all are forgotten once none is left.
    fn forget(&mut self, ended: Option<RunId>) {
        match ended {
            Some(id) => drop(self.ids.remove(&id)),
            None if self.tasks.is_empty() => self.ids.clear(),
            None => {}
        }
    }
}

fn address(run: &Run, agent: Uuid) -> RunAddress {
    RunAddress { agent, run: run.id.0, container: run.container.clone() }
}
