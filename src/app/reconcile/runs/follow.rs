//! Follows one run in a reachable workspace: starts, reads and cancels it.

use std::pin::pin;

use futures_util::StreamExt;
use tokio::sync::watch;
use uuid::Uuid;

use super::address;
use super::record::Recorder;
use crate::app::Fleet;
use crate::app::engine_runs::LiveReading;
use crate::app::error::Error;
use crate::app::hooks;
use crate::coder::exec::{self, ExecError, Exit, Offsets, RunAddress, RunEvent};
use crate::domain::run::{CancelCause, KEPT_OUTPUT, Run, RunCancel, RunEnd, RunState};

impl Fleet {
    /// Returns when the run has ended or its workspace is unreachable.
    pub(super) async fn run_follow(
        &self,
        run: &Run,
        agent: Uuid,
        reading: &mut Option<LiveReading>,
    ) -> Result<(), Error> {
        let address = address(run, agent);
        if run.state == RunState::Accepted {
            match self.run_ensure_started(run, &address).await {
                Ok(()) => self.store().run_started(run.id).await?,
                Err(error) => return self.run_failed(run, error, reading).await,
            }
            self.0.runs.forget_command(run.id);
            hooks::point("run.started");
        }
        match self.run_collect(run, &address, reading).await? {
            Ok(end) => self.run_finish(run, end, reading).await,
            Err(error) => self.run_failed(run, error, reading).await,
        }
    }

    /// Starts the run, or determines whether it was started before a restart of the server. Its input and variables
    /// are lost by then, so a start that did not happen is prevented, as is that of a canceled run.
    async fn run_ensure_started(&self, run: &Run, address: &RunAddress) -> Result<(), ExecError> {
        hooks::point("run.accepted");
        let state = match self.0.runs.command(run.id) {
            Some(command) if run.cancel.is_none() => {
                self.coder().run_start(address.agent, address.run, &command).await?
            }
            Some(_) | None => self.coder().run_forestall(address).await?,
        };
        hooks::point("run.sent");
        match state {
            exec::RunState::Running | exec::RunState::Ended(_) => Ok(()),
            exec::RunState::Unknown | exec::RunState::Removed => Err(ExecError::Unknown),
        }
    }

    /// Stores the output of the run until it ends. The outer error is the store's, the inner one the workspace's.
    async fn run_collect(
        &self,
        run: &Run,
        address: &RunAddress,
        reading: &mut Option<LiveReading>,
    ) -> Result<Result<RunEnd, ExecError>, Error> {
        let from = Offsets { stdout: run.stdout, stderr: run.stderr };
        let mut events = pin!(self.coder().run_follow(address, from));
        let mut recorder = Recorder::new(self, run, reading).await?;
        let mut progress = self.run_progress(run.id);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = recorder.due() => {
                    recorder.flush().await?;
                    continue;
                }
                () = cancel_requested(&mut progress) => {
                    progress = self.run_cancel_now(run, address).await;
                    continue;
                }
            };
            match event {
                Some(Ok(RunEvent::Output { stream, offset, bytes })) => {
                    recorder.push(stream, offset, &bytes).await?;
                }
                Some(Ok(RunEvent::Ended(end))) => {
                    recorder.flush().await?;
                    let counted = self.run_count(run, address).await?;
                    let known = self.run_show(run.id).await?;
                    return Ok(counted.map(|()| end_of(end, known.cancel)));
                }
                Some(Err(error)) => {
                    recorder.flush().await?;
                    return Ok(Err(error));
                }
                None => return Ok(Err(ExecError::Unknown)),
            }
        }
    }

    /// The workspace keeps the beginning of a long stream and counts the rest.
    async fn run_count(&self, run: &Run, address: &RunAddress) -> Result<Result<(), ExecError>, Error> {
        let known = self.run_show(run.id).await?;
        if known.stdout.max(known.stderr) < KEPT_OUTPUT {
            return Ok(Ok(()));
        }
        match self.coder().run_written(address).await {
            Ok(Offsets { stdout, stderr }) => {
                Ok(Ok(self.store().run_written(run.id, stdout, stderr).await?))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Requests the cancel in the workspace, with retries; the end follows as for any run.
    async fn run_cancel_now(&self, run: &Run, address: &RunAddress) -> Option<watch::Receiver<Run>> {
        match self.coder().run_cancel(address).await {
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(run.id = %run.id, %error, "a run could not be canceled yet; retrying");
                tokio::time::sleep(self.limits().run_look).await;
                self.run_progress(run.id)
            }
        }
    }

    /// Decides by the workspace's error whether the run has ended or is followed later.
    async fn run_failed(
        &self,
        run: &Run,
        error: ExecError,
        reading: &mut Option<LiveReading>,
    ) -> Result<(), Error> {
        match self.end_by(run, &error) {
            Some(end) => self.run_finish(run, end, reading).await,
            None => Ok(()),
        }
    }

    /// None if the workspace may respond later.
    fn end_by(&self, run: &Run, error: &ExecError) -> Option<RunEnd> {
        let is_new = run.state == RunState::Accepted;
        match error {
            ExecError::Refused { .. } | ExecError::Command { .. } => {
                Some(RunEnd::Failed { reason: error.to_string() })
            }
            ExecError::Unknown if is_new && run.cancel.is_some() => Some(RunEnd::Canceled),
            ExecError::Unknown if is_new => Some(RunEnd::Unstarted),
            ExecError::Unknown | ExecError::Lost => Some(RunEnd::Lost { reason: FORGOTTEN.to_owned() }),
            ExecError::Coder(_) | ExecError::Cut { .. } | ExecError::Terminal { .. } | ExecError::Running => {
                tracing::debug!(run.id = %run.id, %error, "the workspace of a run is unreachable");
                let is_overdue = run.is_overdue(&self.clock());
                is_overdue
                    .then(|| RunEnd::Lost { reason: format!("its workspace stayed unreachable: {error}") })
            }
        }
    }
}

const FORGOTTEN: &str = "its workspace has no record of it any more";
/// A stop of the workspace ends a run this way.
const KILLED: &str = "it was terminated from outside, possibly by a stop of its workspace";

/// Returns when a cancel is requested; never once it was sent.
async fn cancel_requested(progress: &mut Option<watch::Receiver<Run>>) {
    if let Some(progress) = progress
        && progress.wait_for(|run| run.cancel.is_some()).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

fn end_of(end: exec::RunEnd, cancel: Option<RunCancel>) -> RunEnd {
    match end {
        exec::RunEnd::Exited(Exit::Code(code)) => RunEnd::Exited { code },
        exec::RunEnd::Exited(Exit::Signal(signal)) => RunEnd::Signaled { signal },
        exec::RunEnd::Exited(Exit::TimedOut) => RunEnd::TimedOut,
        exec::RunEnd::Canceled => match cancel.map(|cancel| cancel.cause) {
            Some(CancelCause::Budget) => RunEnd::OverBudget,
            Some(CancelCause::Request) | None => RunEnd::Canceled,
        },
        exec::RunEnd::Lost => RunEnd::Lost { reason: KILLED.to_owned() },
    }
}
