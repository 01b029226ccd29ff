//! Runs: processes inside workspaces that outlive our connections and ourselves, and what they wrote.
//!
//! These are for other use cases, which have checked the caller's rights; no surface calls them directly.

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

/// A page of output is never longer.
const LONGEST_PAGE: u64 = 1 << 20;

/// What is to run.
#[derive(Clone, PartialEq, Eq)]
pub struct NewRun {
    pub agent: AgentId,
    /// What it is for, for people.
    pub purpose: String,
    /// Visible to all in the workspace and kept in the store: no secrets in here.
    pub argv: Vec<String>,
    pub cwd: Option<String>,
    pub inherited: Inherited,
    /// Never stored.
    pub env: Vec<(String, String)>,
    /// Never stored.
    pub stdin: Bytes,
    pub timeout: Duration,
    /// When it is an engine: how its output is read.
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
    /// Accepts a run for an agent whose workspace runs. It is started soon, once, and followed to its end, whatever
    /// happens to us meanwhile.
    pub async fn start_run(&self, new: NewRun) -> Result<RunId, Error> {
        self.start_run_as(RunId::fresh(), new).await
    }

    /// The same under a name that the caller derives, so that asking again begins nothing new.
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
            ended_at: None,
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

    /// The run once it has ended, or as it is when the time is over.
    pub async fn wait_run(&self, id: RunId, limit: Duration) -> Result<Run, Error> {
        let Some(mut progress) = self.run_progress(id) else { return self.run_show(id).await };
        let ended = progress.wait_for(Run::is_ended);
        tokio::select! {
            // An error means that the run is no longer followed, and so has ended or waits for the next server.
            _ = tokio::time::timeout(limit, ended) => {}
            () = self.0.stopping.cancelled() => {}
        }
        self.run_show(id).await
    }

    pub async fn run_show(&self, id: RunId) -> Result<Run, Error> {
        self.store().run_by_id(id).await?.ok_or_else(|| Error::RunNotFound(id.to_string()))
    }

    /// Changes whenever more of the run is stored; none when it is not being followed.
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

    /// Has the run and all its descendants ended: asked first, then killed. Returns at once; the end is told by
    /// [`Fleet::wait_run`].
    pub async fn cancel_run(&self, id: RunId) -> Result<Run, Error> {
        self.run_request_cancel(id, RunCancel { at: Utc::now(), cause: CancelCause::Request }).await
    }

    /// The same for this cause; the first request counts.
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

    /// The same for a run that may not have been accepted yet; whoever begins it looks before.
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
