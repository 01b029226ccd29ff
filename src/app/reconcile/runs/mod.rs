//! The reconciler of runs: follows each open run to its end and removes it from its workspace.

mod follow;
mod record;

use chrono::Utc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::pool::{Next, Pauses, Pool};
use crate::app::Fleet;
use crate::app::engine_runs::LiveReading;
use crate::app::error::Error;
use crate::app::hooks;
use crate::coder::exec::{ExecError, RunAddress};
use crate::domain::id::RunId;
use crate::domain::run::{Run, RunEnd, RunStep, WorkspaceSeen};

impl Fleet {
    pub(super) async fn runs_until(self, stop: CancellationToken) {
        let mut nudges = self.0.runs.nudges();
        let mut pool = Pool::new("run", Pauses::of(self.limits()), stop);
        while pool.turn(nudges.changed()).await {
            match self.store().runs_open().await {
                Ok(open) => open.into_iter().for_each(|run| pool.start(run.id, self.clone().run_work(run))),
                Err(error) => pool.read_failed(&error.into()),
            }
        }
    }

    /// Follows one run until it has ended and is removed, or cannot be removed now. After a panic its command stays
    /// in memory, so that the next worker can still start it.
    async fn run_work(self, run: Run) -> Result<Next, Error> {
        self.0.runs.put(&run, None);
        let worked = self.run_until_cleared(run.id).await;
        self.0.runs.forget(run.id);
        worked.map(|()| Next::AwaitNudge)
    }

    async fn run_until_cleared(&self, id: RunId) -> Result<(), Error> {
        // Kept while the workspace is unreachable, so that no output is read twice.
        let mut reading = LiveReading::of(&self.run_show(id).await?);
        loop {
            let run = self.run_show(id).await?;
            if run.is_ended() {
                return self.run_clear(&run).await;
            }
            match run.judge(self.workspace_seen(&run), &self.clock()) {
                RunStep::Ask(agent) => self.run_follow(&run, agent, &mut reading).await?,
                RunStep::Wait => {}
                RunStep::End(end) => self.run_finish(&run, end, &mut reading).await?,
            }
            tokio::time::sleep(self.limits().run_look).await;
        }
    }

    /// Counts the engine's usage, records the end and notifies waiters.
    async fn run_finish(
        &self,
        run: &Run,
        end: RunEnd,
        reading: &mut Option<LiveReading>,
    ) -> Result<(), Error> {
        // The lengths of its output have grown since it was read.
        let run = &self.run_show(run.id).await?;
        if !end.never_began() {
            self.engine_run_count(run, reading).await?;
            hooks::point("run.counted");
        }
        let end = self.engine_run_end(run, end, reading.as_ref()).await?;
        self.store().run_end(run.id, &end, Utc::now()).await?;
        hooks::point("run.ended");
        let ended = self.run_show(run.id).await?;
        tracing::info!(run.id = %run.id, run.purpose = run.purpose, %end, "a run has ended");
        self.0.runs.publish(&ended);
        Ok(())
    }

    /// Removes an ended run from its workspace, since its result is stored. An unreachable workspace is retried
    /// later; a deleted one has nothing to remove.
    async fn run_clear(&self, run: &Run) -> Result<(), Error> {
        match self.workspace_seen(run) {
            WorkspaceSeen::Deleted => {}
            WorkspaceSeen::Unseen
            | WorkspaceSeen::Broken
            | WorkspaceSeen::Seen { workspace_agent: None, .. } => {
                return Ok(());
            }
            WorkspaceSeen::Seen { workspace_agent: Some(agent), .. } => {
                let address = address(run, agent);
                match self.coder().run_remove(&address).await {
                    Ok(()) => {}
                    // The store has the run's end, so the process has to end too.
                    Err(ExecError::Running) => {
                        let canceled = self.coder().run_cancel(&address).await;
                        tracing::warn!(
                            run.id = %run.id, ?canceled,
                            "a run continued after its record had ended"
                        );
                        return Ok(());
                    }
                    Err(error) => {
                        tracing::debug!(
                            run.id = %run.id, %error,
                            "the files of a run could not be removed from its workspace; retrying later"
                        );
                        return Ok(());
                    }
                }
            }
        }
        Ok(self.store().run_cleared(run.id).await?)
    }

    /// The location of the run's workspace in the last poll.
    fn workspace_seen(&self, run: &Run) -> WorkspaceSeen {
        let snapshot = self.board().now();
        if snapshot.observed_at.is_none() {
            return WorkspaceSeen::Unseen;
        }
        match snapshot.by_id(run.agent_id) {
            Some(state) if state.live.workspace_agent.is_none() && state.live.has_failed_start() => {
                WorkspaceSeen::Broken
            }
            Some(state) => WorkspaceSeen::Seen {
                status: state.agent.sighting.status,
                workspace_agent: state.live.workspace_agent,
            },
            None => WorkspaceSeen::Deleted,
        }
    }
}

fn address(run: &Run, agent: Uuid) -> RunAddress {
    RunAddress { agent, run: run.id.0, container: run.container.clone() }
}
