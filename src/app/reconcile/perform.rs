//! Performs one operation: look up, plan, record, act, repeat.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ending::{cancel_summary, failed, failure_of, timed_out};
use super::pool::Next;
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::slots::Slot;
use crate::coder::wire::Workspace;
use crate::coder::{CoderError, ErrorKind, Outcome};
use crate::domain::agent::Agent;
use crate::domain::clock::Clock;
use crate::domain::id::AgentId;
use crate::domain::limits::Limits;
use crate::domain::operation::{Failure, Operation, OperationEnd, OperationKind, Progress, Subject};
use crate::domain::plan::{CancelOutcome, OperationStep, Seen, plan, rescue_first};
use crate::domain::plan_cancel::plan_cancel;
use crate::domain::rescue::Rescue;
use crate::domain::status::{Fitness, fitness};
use crate::store::StoreError;

/// A running operation and its resources.
pub(super) struct ActiveOperation {
    pub(super) operation: Operation,
    pub(super) agent: Agent,
    /// Held while sending a request and during its build, never while the operation waits for anything else.
    pub(super) slot: Option<Slot>,
    /// The rescue of a delete that keeps work.
    pub(super) rescue: Option<Rescue>,
    /// Coder's last error, if the request had no effect.
    pub(super) refusal: Option<String>,
    /// The start of the operation or its request, moved forward by the time it waited for Coder or a slot.
    began: Instant,
    n_pauses: u32,
}

/// Whether a request may be sent on the current lookup.
enum Admission {
    Now,
    AfterWaiting,
}

/// The result of a step.
pub(super) enum StepResult {
    Repeat,
    Pause,
    /// Coder accepts no more requests before this time.
    RateLimited {
        until: Option<DateTime<Utc>>,
    },
    End(OperationEnd),
}

impl Fleet {
    /// Runs until the operation has ended or `stop` requests a safe point; failed steps are retried.
    pub(super) async fn perform(&self, operation: Operation, stop: CancellationToken) -> Result<Next, Error> {
        let (id, kind) = (operation.id, operation.kind);
        let Some(mut active) = self.active_operation(operation).await? else { return Ok(Next::ReadOpenWork) };
        while !stop.is_cancelled() {
            let result = match self.run_step(&mut active, &stop).await {
                Ok(StepResult::Pause) if active.elapsed() > self.options().build_timeout => {
                    Ok(StepResult::End(timed_out(&active)))
                }
                other => other,
            };
            let result = match result {
                Ok(StepResult::End(end)) => {
                    self.conclude(&mut active, &end).await.map(|()| StepResult::End(end))
                }
                other => other,
            };
            match result {
                Ok(StepResult::Repeat) => active.n_pauses = 0,
                Ok(StepResult::Pause) => active.pause(self.limits(), &stop).await,
                Ok(StepResult::RateLimited { until }) => {
                    active.pause_until(until, self.limits(), &stop).await;
                }
                Ok(StepResult::End(_)) | Err(Error::Store(StoreError::Ended)) => break,
                Err(error) => {
                    tracing::warn!(
                        operation.id = %id, operation.kind = %kind, %error,
                        "a step failed; retrying"
                    );
                    active.release_slot();
                    active.pause(self.limits(), &stop).await;
                }
            }
        }
        Ok(Next::ReadOpenWork)
    }

    /// None if the agent was discarded with all its rows.
    async fn active_operation(&self, operation: Operation) -> Result<Option<ActiveOperation>, Error> {
        // The steps below are those of an agent's life cycle; another subject has steps of its own.
        let Subject::Agent(agent) = operation.subject;
        let Some(agent) = self.store().agent_by_id(agent).await? else { return Ok(None) };
        let rescue = match operation.kind {
            OperationKind::Delete => self.store().rescue_of(operation.id).await?,
            OperationKind::Create | OperationKind::Start => None,
            OperationKind::Stop | OperationKind::Restart => None,
        };
        Ok(Some(ActiveOperation {
            operation,
            agent,
            slot: None,
            rescue,
            refusal: None,
            began: Instant::now(),
            n_pauses: 0,
        }))
    }

    async fn run_step(
        &self,
        active: &mut ActiveOperation,
        stop: &CancellationToken,
    ) -> Result<StepResult, Error> {
        if !self.health().now().is_reachable() {
            active.release_slot();
            let unreachable_since = Instant::now();
            tokio::select! {
                waited = self.await_coder(active.agent.id) => waited?,
                () = stop.cancelled() => return Ok(StepResult::Repeat),
            }
            active.exclude_time_since(unreachable_since);
        }
        self.inherit_create_progress(active).await?;
        let began = Instant::now();
        let workspace = match self.lookup_workspace(active).await {
            Ok(workspace) => workspace,
            Err(error) => return self.after_failed_request(active, &error),
        };
        let mut seen = match self.classify(active, workspace.as_ref()).await {
            Err(error) if !error.is_retryable() => return Ok(failed(&error)),
            other => other?,
        };
        if let Some(workspace) = workspace.as_ref().filter(|_| matches!(seen, Seen::Build(_)))
            && active.operation.kind != OperationKind::Delete
            && active.agent.workspace_id.is_some()
        {
            let sighted = self.observe_now(active.agent.id, workspace, began).await;
            active.unless_stop_on_full_disk(sighted)?;
            if let Seen::Build(build) = &mut seen {
                build.fitness = self.fitness_now(active.agent.id);
            }
        }
        let step = active.next_step(&seen, &self.clock());
        self.execute(active, step, workspace.as_ref(), stop).await
    }

    pub(super) fn after_failed_request(
        &self,
        active: &mut ActiveOperation,
        error: &CoderError,
    ) -> Result<StepResult, Error> {
        active.release_slot();
        match (error.outcome(), error.kind()) {
            (_, ErrorKind::RateLimited { retry_at }) => Ok(StepResult::RateLimited { until: retry_at }),
            (Outcome::Refused, kind) if kind != ErrorKind::Unauthorized => {
                let failure =
                    Failure { code: "CODER_REJECTED".into(), message: format!("Coder refused: {error}") };
                Ok(StepResult::End(OperationEnd::Failed(failure)))
            }
            (Outcome::Refused | Outcome::NotSent | Outcome::Unclear, _) => {
                active.refusal = Some(error.to_string());
                self.nudge_poll();
                Ok(StepResult::Pause)
            }
        }
    }

    /// The fitness of the workspace agents in the last lookup.
    fn fitness_now(&self, agent: AgentId) -> Fitness {
        let snapshot = self.board().now();
        let observation = snapshot.by_id(agent).and_then(|state| state.live.observation.as_deref());
        observation.map_or(Fitness::Well, fitness)
    }

    async fn execute(
        &self,
        active: &mut ActiveOperation,
        step: OperationStep,
        workspace: Option<&Workspace>,
        stop: &CancellationToken,
    ) -> Result<StepResult, Error> {
        match step {
            OperationStep::Watch => {
                active.refusal = None;
                self.count_build(active);
                Ok(StepResult::Pause)
            }
            OperationStep::Wait => {
                (active.slot, active.refusal) = (None, None);
                Ok(StepResult::Pause)
            }
            OperationStep::Finish => Ok(StepResult::End(OperationEnd::Done)),
            OperationStep::Cancel(left) => {
                Ok(StepResult::End(OperationEnd::Canceled(Some(cancel_summary(left).to_owned()))))
            }
            OperationStep::Fail(cause) => {
                Ok(StepResult::End(OperationEnd::Failed(failure_of(&cause, &active.agent))))
            }
            OperationStep::Follow { build } => {
                self.count_build(active);
                self.progress(active, Progress::Following { build, ended_at: None }).await
            }
            OperationStep::NoteEnd { build } => {
                self.progress(active, Progress::Following { build, ended_at: Some(Utc::now()) }).await
            }
            OperationStep::Rescue { until } => self.rescue(active, workspace, until, stop).await,
            OperationStep::CancelBuild => {
                active.slot = None;
                self.cancel_build(active, workspace).await
            }
            OperationStep::Send { request, base_build } => match self.slot_for(active, stop).await {
                Admission::Now => self.send(active, request, base_build).await,
                Admission::AfterWaiting => Ok(StepResult::Repeat),
            },
        }
    }

    /// Takes a slot for a running build of the operation, also after a restart of the server and in the second half
    /// of a restart. A canceled operation leaves its slot to others.
    fn count_build(&self, active: &mut ActiveOperation) {
        if active.operation.cancel.is_none() {
            active.slot = active.slot.take().or_else(|| self.0.slots.take_now());
        }
    }

    /// Takes a slot; a request to be repeated goes to the end of the queue. After a wait the workspace is looked up
    /// again before the request is sent, since it may have changed.
    async fn slot_for(&self, active: &mut ActiveOperation, stop: &CancellationToken) -> Admission {
        if !matches!(active.operation.progress, Progress::Sending { .. }) {
            // The request's time starts with its first attempt.
            active.began = Instant::now();
        }
        if active.refusal.take().is_some() {
            active.slot = None;
        }
        active.slot = active.slot.take().or_else(|| self.0.slots.take_now());
        if active.slot.is_some() {
            return Admission::Now;
        }
        let queued_at = Instant::now();
        tokio::select! {
            slot = self.0.slots.take() => active.slot = Some(slot),
            () = stop.cancelled() => {}
        }
        active.exclude_time_since(queued_at);
        Admission::AfterWaiting
    }

    pub(super) async fn progress(
        &self,
        active: &mut ActiveOperation,
        progress: Progress,
    ) -> Result<StepResult, Error> {
        let recorded = self.store().operation_progress(active.operation.id, progress, Utc::now()).await;
        active.unless_stop_on_full_disk(recorded.map_err(Error::from))?;
        active.operation.progress = progress;
        self.nudge_operations();
        Ok(StepResult::Repeat)
    }

    /// Not every user may cancel builds: then a delete waits for the end of the build, and a canceled operation
    /// leaves its build running.
    async fn cancel_build(
        &self,
        active: &ActiveOperation,
        workspace: Option<&Workspace>,
    ) -> Result<StepResult, Error> {
        let Some(workspace) = workspace else { return Ok(StepResult::Pause) };
        let canceled = self.coder().build_cancel(workspace.latest_build.id).await;
        point("cancel.asked");
        match canceled {
            Err(error) if error.kind() == ErrorKind::Forbidden && active.operation.cancel.is_some() => {
                let left = "Coder did not cancel the build; it continues";
                Ok(StepResult::End(OperationEnd::Canceled(Some(left.to_owned()))))
            }
            Err(error) => {
                tracing::debug!(%error, "a build could not be canceled; waiting for its end");
                Ok(StepResult::Pause)
            }
            Ok(()) => Ok(StepResult::Pause),
        }
    }

    /// Ends an operation that has sent nothing to Coder.
    pub(super) async fn end_unsent(&self, operation: Operation) -> Result<(), Error> {
        let Some(mut active) = self.active_operation(operation).await? else { return Ok(()) };
        self.conclude(
            &mut active,
            &OperationEnd::Canceled(Some(cancel_summary(CancelOutcome::Nothing).to_owned())),
        )
        .await
    }
}

impl ActiveOperation {
    fn next_step(&self, seen: &Seen, clock: &Clock) -> OperationStep {
        let Operation { kind, progress, cancel, .. } = &self.operation;
        if cancel.is_some() {
            return plan_cancel(*kind, *progress, seen);
        }
        let step = plan(*kind, *progress, seen, clock);
        rescue_first(step, self.rescue.as_ref().map(|rescue| &rescue.outcome), clock)
    }

    /// A stop continues if its steps cannot be recorded on a full disk: repeating it is harmless, and the stopped
    /// agent may be filling the disk.
    fn unless_stop_on_full_disk<T>(&self, recorded: Result<T, Error>) -> Result<(), Error> {
        match recorded {
            Err(Error::DiskFull) if self.operation.kind == OperationKind::Stop => Ok(()),
            other => other.map(drop),
        }
    }

    /// Returns the slot, unless a build of this operation is running.
    pub(super) fn release_slot(&mut self) {
        if !matches!(self.operation.progress, Progress::Following { ended_at: None, .. }) {
            self.slot = None;
        }
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Excludes a wait from the build's time limit.
    fn exclude_time_since(&mut self, since: Instant) {
        self.began += since.elapsed();
    }

    /// Waits before the next lookup.
    async fn pause(&mut self, limits: &Limits, stop: &CancellationToken) {
        let pause = limits.operation_look.pause(self.n_pauses);
        self.n_pauses += 1;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Waits for the end of a rate limit; without a time from Coder, for the usual pause.
    async fn pause_until(&mut self, until: Option<DateTime<Utc>>, limits: &Limits, stop: &CancellationToken) {
        let limited_at = Instant::now();
        let named = until.and_then(|at| (at - Utc::now()).to_std().ok());
        match named {
            Some(wait) => tokio::select! {
                () = tokio::time::sleep(wait.min(limits.rate_limit)) => {}
                () = stop.cancelled() => {}
            },
            None => self.pause(limits, stop).await,
        }
        self.exclude_time_since(limited_at);
    }
}
