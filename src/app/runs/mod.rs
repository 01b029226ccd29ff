//! Runs: processes inside workspaces that outlive connections and the server, and their output.

mod active;

use chrono::Utc;
use tokio::sync::watch;

pub(super) use active::ActiveRuns;

use super::Fleet;
use super::error::Error;
use super::snapshot::AgentState;
use crate::coder::exec::Command;
use crate::domain::id::{AgentId, RunId};
use crate::domain::run::{
    CancelCause, EngineRun, KEPT_OUTPUT, Run, RunCancel, RunOutput, RunState, RunStream,
};

/// The largest page of output.
const LONGEST_PAGE: u64 = 1 << 20;

/// A run to be started.
#[derive(Debug, Clone)]
pub(in crate::app) struct NewRun {
    pub(in crate::app) agent: AgentId,
    /// The purpose, for people.
    pub(in crate::app) purpose: String,
    /// Its arguments are stored, its variables and its input are not.
    pub(in crate::app) command: Command,
    /// How the output is read, if the run is an engine.
    pub(in crate::app) engine: Option<EngineRun>,
}

impl Fleet {
    /// Accepts a run in the running workspace of an agent. The run starts once and is followed to its end, across
    /// restarts of the server. A repeated call with the same id starts nothing new.
    pub(in crate::app) async fn run_start_as(&self, id: RunId, new: NewRun) -> Result<(), Error> {
        if self.store().run_by_id(id).await?.is_some() {
            return Ok(());
        }
        let agent = self.run_agent(new.agent)?;
        self.check_container(&agent.agent.project)?;
        let run = Run {
            id,
            agent_id: new.agent,
            generation: agent.agent.sighting.generation,
            purpose: new.purpose,
            argv: new.command.argv.clone(),
            container: self.container_of(&agent.agent.project),
            timeout: new.command.timeout,
            state: RunState::Accepted,
            stdout: 0,
            stderr: 0,
            cancel: None,
            engine: new.engine,
            created_at: Utc::now(),
            is_cleared: false,
        };
        let (container, kept_output) = (run.container.clone(), Some(KEPT_OUTPUT));
        let command = Command { container, kept_output, ..new.command };
        command.check().map_err(|error| Error::invalid("argv", error.to_string()))?;
        self.0.runs.put(&run, Some(command));
        if let Err(error) = self.store().run_accept(&run).await {
            self.0.runs.forget(run.id);
            return Err(error.into());
        }
        self.0.runs.nudge();
        Ok(())
    }

    pub(in crate::app) async fn run_show(&self, id: RunId) -> Result<Run, Error> {
        self.store().run_by_id(id).await?.ok_or_else(|| Error::RunNotFound(id.to_string()))
    }

    /// Notifies of stored changes of the run; none if the run is not followed.
    pub(in crate::app) fn run_progress(&self, id: RunId) -> Option<watch::Receiver<Run>> {
        self.0.runs.progress(id)
    }

    /// A page of what the run wrote to one stream.
    pub(in crate::app) async fn run_output(
        &self,
        id: RunId,
        stream: RunStream,
        offset: u64,
        limit: u64,
    ) -> Result<RunOutput, Error> {
        let known = self.run_show(id).await?;
        Ok(self.store().run_output(known.id, stream, offset, limit.min(LONGEST_PAGE)).await?)
    }

    /// Requests that the run is terminated with all its descendants; the first request counts.
    pub(in crate::app) async fn run_cancel(&self, id: RunId, cause: CancelCause) -> Result<(), Error> {
        let cancel = RunCancel { at: Utc::now(), cause };
        self.store().run_ask_cancel(id, cancel).await?;
        let run = self.run_show(id).await?;
        self.0.runs.publish(&run);
        self.0.runs.nudge();
        Ok(())
    }

    /// Cancels a run that may not be accepted yet: the reconciler checks for a cancel before the start.
    pub(in crate::app) async fn run_cancel_if_accepted(&self, id: RunId) -> Result<(), Error> {
        match self.run_cancel(id, CancelCause::Request).await {
            Ok(()) | Err(Error::RunNotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn run_agent(&self, id: AgentId) -> Result<std::sync::Arc<AgentState>, Error> {
        let snapshot = self.board().now();
        let agent = snapshot.by_id(id).ok_or_else(|| Error::AgentNotFound(id.to_string()))?;
        let status = agent.agent.sighting.status;
        if !status.is_ready() {
            return Err(Error::NotReady { name: agent.agent.name.to_string(), status });
        }
        Ok(std::sync::Arc::clone(agent))
    }
}
