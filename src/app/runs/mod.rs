//! Runs: processes inside workspaces that outlive connections and the server, and their output.
//!
//! For use cases that have already checked the caller's rights; no interface calls them directly.

mod active;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use tokio::sync::watch;

pub(super) use active::ActiveRuns;

use super::Fleet;
use super::error::Error;
use super::snapshot::AgentState;
use crate::coder::exec::{Command, Inherited};
use crate::domain::id::{AgentId, RunId};
use crate::domain::run::{
    CancelCause, EngineRun, KEPT_OUTPUT, Run, RunCancel, RunOutput, RunState, RunStream,
};

/// The largest page of output.
const LONGEST_PAGE: u64 = 1 << 20;

/// A run to be started.
#[derive(Clone, PartialEq, Eq)]
pub struct NewRun {
    pub agent: AgentId,
    /// The purpose, for people.
    pub purpose: String,
    /// Visible to all processes of the workspace and stored: must not hold secrets.
    pub argv: Vec<String>,
    pub cwd: Option<String>,
    pub inherited: Inherited,
    /// Never stored.
    pub env: Vec<(String, String)>,
    /// Never stored.
    pub stdin: Bytes,
    pub timeout: Duration,
    /// How the output is read, if the run is an engine.
    pub engine: Option<EngineRun>,
}

impl fmt::Debug for NewRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewRun")
            .field("agent", &self.agent)
            .field("purpose", &self.purpose)
            .field("argv", &self.argv)
            .finish_non_exhaustive()
    }
}

impl Fleet {
    /// Accepts a run in the running workspace of an agent. The run starts once and is followed to its end, across
    /// restarts of the server.
    pub async fn start_run(&self, new: NewRun) -> Result<RunId, Error> {
        self.start_run_as(RunId::fresh(), new).await
    }

    /// `start_run` with an id that the caller derives, so that a repeated call starts nothing new.
    pub async fn start_run_as(&self, id: RunId, new: NewRun) -> Result<RunId, Error> {
        if self.store().run_by_id(id).await?.is_some() {
            return Ok(id);
        }
        let agent = self.run_agent(new.agent)?;
        self.check_container(&agent.agent.project)?;
        let run = Run {
            id,
            agent_id: new.agent,
            generation: agent.agent.sighting.generation,
            purpose: new.purpose,
            argv: new.argv.clone(),
            container: self.container_of(&agent.agent.project),
            timeout: new.timeout,
            state: RunState::Accepted,
            stdout: 0,
            stderr: 0,
            cancel: None,
            engine: new.engine,
            created_at: Utc::now(),
            is_cleared: false,
        };
        let command = Command {
            cwd: new.cwd,
            inherited: new.inherited,
            env: new.env,
            stdin: new.stdin,
            timeout: new.timeout,
            container: run.container.clone(),
            kept_output: Some(KEPT_OUTPUT),
            ..Command::new(new.argv)
        };
        command.check().map_err(|error| Error::invalid("argv", error.to_string()))?;
        self.0.runs.put(&run, Some(command));
        if let Err(error) = self.store().run_accept(&run).await {
            self.0.runs.forget(run.id);
            return Err(error.into());
        }
        self.0.runs.nudge();
        Ok(run.id)
    }

    /// The run once it has ended, or its current state at the deadline.
    pub async fn wait_run(&self, id: RunId, limit: Duration) -> Result<Run, Error> {
        let Some(mut progress) = self.run_progress(id) else { return self.run_show(id).await };
        let ended = progress.wait_for(Run::is_ended);
        tokio::select! {
            // An error means that the run is no longer followed: it has ended, or the server is stopping.
            _ = tokio::time::timeout(limit, ended) => {}
            () = self.0.stopping.cancelled() => {}
        }
        self.run_show(id).await
    }

    pub async fn run_show(&self, id: RunId) -> Result<Run, Error> {
        self.store().run_by_id(id).await?.ok_or_else(|| Error::RunNotFound(id.to_string()))
    }

    /// Notifies of stored changes of the run; none if the run is not followed.
    pub fn run_progress(&self, id: RunId) -> Option<watch::Receiver<Run>> {
        self.0.runs.progress(id)
    }

    /// A page of what the run wrote to one stream.
    pub async fn run_output(
        &self,
        id: RunId,
        stream: RunStream,
        offset: u64,
        limit: u64,
    ) -> Result<RunOutput, Error> {
        let known = self.run_show(id).await?;
        Ok(self.store().run_output(known.id, stream, offset, limit.min(LONGEST_PAGE)).await?)
    }

    /// Terminates the run with all its descendants, by SIGTERM, then SIGKILL. Returns at once; [`Fleet::wait_run`]
    /// awaits the end.
    pub async fn cancel_run(&self, id: RunId) -> Result<Run, Error> {
        self.run_request_cancel(id, RunCancel { at: Utc::now(), cause: CancelCause::Request }).await
    }

    /// Cancels the run for this cause; the first request counts.
    pub(in crate::app) async fn run_request_cancel(
        &self,
        id: RunId,
        cancel: RunCancel,
    ) -> Result<Run, Error> {
        self.store().run_ask_cancel(id, cancel).await?;
        let run = self.run_show(id).await?;
        self.0.runs.publish(&run);
        self.0.runs.nudge();
        Ok(run)
    }

    /// Cancels a run that may not be accepted yet: the reconciler checks for a cancel before the start.
    pub(in crate::app) async fn run_cancel_if_accepted(&self, id: RunId) -> Result<(), Error> {
        match self.cancel_run(id).await {
            Ok(_) | Err(Error::RunNotFound(_)) => Ok(()),
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
