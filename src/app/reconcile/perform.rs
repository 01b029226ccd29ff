//! Carries one operation to its end: look, plan, record, act, and again.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ending::{failed, failure_of, timed_out};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::slots::Slot;
use crate::coder::wire::Workspace;
use crate::coder::{CoderError, Deleted, ErrorKind, Outcome};
use crate::domain::agent::Agent;
use crate::domain::id::WorkspaceId;
use crate::domain::operation::{Failure, Operation, OperationKind, Progress};
use crate::domain::plan::{BuildState, Seen, Step, plan, rescue_first};
use crate::domain::rescue::Rescue;
use crate::domain::words::{JobStatus, Transition};
use crate::store::{OperationEnd, StoreError};

/// How soon to look again: at first at once, for a lost answer, then as seldom as suits a build.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Clocks of Coder and ours may differ by this much when a workspace is told to be ours by its time.
const CLOCK_SKEW: TimeDelta = TimeDelta::seconds(120);

/// An operation under way and what it holds.
pub(super) struct Work {
    pub(super) operation: Operation,
    pub(super) agent: Agent,
    pub(super) slot: Option<Slot>,
    /// Of a delete that keeps work.
    pub(super) rescue: Option<Rescue>,
    began: Instant,
    n_quiet: u32,
}

/// What a step led to.
pub(super) enum Turn {
    Again,
    Pause,
    End(OperationEnd),
}

impl Fleet {
    /// Runs until the operation has ended or `stop` asks for a safe point; errors of ours are tried again.
    pub(super) async fn perform(&self, operation: Operation, stop: CancellationToken) {
        let id = operation.id;
        let span = tracing::info_span!("operation", operation.id = %id, operation.kind = %operation.kind);
        let mut work = match self.work_of(operation).await {
            Ok(Some(work)) => work,
            Ok(None) => return,
            Err(error) => {
                return tracing::error!(parent: &span, %error, "the operation's agent could not be read");
            }
        };
        while !stop.is_cancelled() {
            let turn = match self.turn(&mut work, &stop).await {
                Ok(Turn::End(end)) => self.conclude(&mut work, &end).await.map(|()| Turn::End(end)),
                other => other,
            };
            match turn {
                Ok(Turn::Again) => work.n_quiet = 0,
                Ok(Turn::Pause) => work.pause(&stop).await,
                Ok(Turn::End(_)) | Err(Error::Store(StoreError::Ended)) => return,
                Err(error) => {
                    tracing::warn!(parent: &span, %error, "a step failed and is tried again");
                    work.pause(&stop).await;
                }
            }
        }
    }

    /// None when the agent was discarded with all that hung on it.
    async fn work_of(&self, operation: Operation) -> Result<Option<Work>, Error> {
        let Some(agent) = self.store().agent_by_id(operation.agent_id).await? else { return Ok(None) };
        let rescue = match operation.kind {
            OperationKind::Delete => self.store().rescue_of(operation.id).await?,
            OperationKind::Create | OperationKind::Start => None,
            OperationKind::Stop | OperationKind::Restart => None,
        };
        Ok(Some(Work { operation, agent, slot: None, rescue, began: Instant::now(), n_quiet: 0 }))
    }

    /// A create that was sent and never seen to arrive: its delete has to look for what may still come of it.
    async fn inherit_progress(&self, work: &mut Work) -> Result<(), Error> {
        let is_first = work.operation.progress == Progress::Accepted && work.agent.workspace_id.is_none();
        if work.operation.kind != OperationKind::Delete || !is_first {
            return Ok(());
        }
        let earlier = self.store().operations_of(work.agent.id, u32::MAX).await?;
        if let Some(create) = earlier.iter().find(|operation| operation.kind == OperationKind::Create) {
            work.operation.progress = create.progress;
        }
        Ok(())
    }

    async fn turn(&self, work: &mut Work, stop: &CancellationToken) -> Result<Turn, Error> {
        tokio::select! {
            () = self.health().reachable() => {}
            () = stop.cancelled() => return Ok(Turn::Again),
        }
        self.inherit_progress(work).await?;
        let workspace = match self.look(work).await {
            Ok(workspace) => workspace,
            Err(error) => return self.after_failed_look(&error),
        };
        let seen = match self.seen(work, workspace.as_ref()).await {
            Err(error) if !error.is_retryable() => return Ok(failed(&error)),
            other => other?,
        };
        if let Some(workspace) = workspace.as_ref().filter(|_| matches!(seen, Seen::Build(_)))
            && work.operation.kind != OperationKind::Delete
            && work.agent.workspace_id.is_some()
        {
            let sighted = self.sight_now(work.agent.id, workspace).await;
            work.even_unrecorded(sighted)?;
        }
        let step = plan(work.operation.kind, work.operation.progress, &seen, Utc::now());
        let step = rescue_first(step, work.rescue.as_ref().map(|rescue| &rescue.outcome), Utc::now());
        self.take(work, step, workspace.as_ref(), stop).await
    }

    /// The workspace as Coder has it now: by id once we know it, by name before.
    async fn look(&self, work: &Work) -> Result<Option<Workspace>, CoderError> {
        let nothing_sent = work.operation.progress == Progress::Accepted;
        let found = match work.agent.workspace_id {
            Some(id) => self.coder().workspace(id.0, Deleted::Include).await,
            None if work.operation.kind == OperationKind::Delete && nothing_sent => return Ok(None),
            None => self.coder().workspace_by_name("me", work.agent.name.as_str(), Deleted::Exclude).await,
        };
        match found {
            Ok(workspace) => Ok(Some(workspace)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Gone) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn after_failed_look(&self, error: &CoderError) -> Result<Turn, Error> {
        match error.outcome() {
            Outcome::Refused if error.kind() != ErrorKind::Unauthorized && !is_rate_limit(error) => {
                let failure =
                    Failure { code: "CODER_REJECTED".into(), message: format!("Coder refused: {error}") };
                Ok(Turn::End(OperationEnd::Failed(failure)))
            }
            Outcome::Refused | Outcome::NotSent | Outcome::Unclear => {
                self.nudge_poll();
                Ok(Turn::Pause)
            }
        }
    }

    async fn seen(&self, work: &mut Work, workspace: Option<&Workspace>) -> Result<Seen, Error> {
        let Some(workspace) = workspace else { return Ok(Seen::Gone) };
        if work.agent.workspace_id.is_none() {
            let Progress::Sending { sent_at, .. } = work.operation.progress else { return Ok(Seen::Foreign) };
            if !self.is_ours(work, workspace, sent_at).await? {
                return Ok(Seen::Foreign);
            }
            self.own(work, workspace).await?;
        }
        let build = &workspace.latest_build;
        Ok(Seen::Build(BuildState {
            number: build.build_number,
            transition: Transition::from_word(&build.transition),
            job: JobStatus::from_word(&build.job.status),
            error: build.job.error.clone(),
        }))
    }

    /// After an unclear answer: template, prompt and time must be what we sent, else it is someone else's.
    async fn is_ours(
        &self,
        work: &Work,
        workspace: &Workspace,
        sent_at: DateTime<Utc>,
    ) -> Result<bool, Error> {
        let found = self.found()?;
        let Some(info) = found.project(&work.agent.project) else { return Ok(false) };
        if workspace.template_id != info.template_id || workspace.created_at < sent_at - CLOCK_SKEW {
            return Ok(false);
        }
        let Some(prompt) = info.prompt_parameter() else { return Ok(true) };
        let parameters = self.coder().build_parameters(workspace.latest_build.id).await?;
        Ok(parameters
            .iter()
            .any(|parameter| parameter.name == prompt.name && parameter.value == work.agent.spec))
    }

    pub(super) async fn own(&self, work: &mut Work, workspace: &Workspace) -> Result<(), Error> {
        let id = WorkspaceId(workspace.id);
        self.store().agent_workspace_set(work.agent.id, id).await?;
        work.agent.workspace_id = Some(id);
        self.board_refresh(work.agent.id).await?;
        point("create.owned");
        Ok(())
    }

    async fn take(
        &self,
        work: &mut Work,
        step: Step,
        workspace: Option<&Workspace>,
        stop: &CancellationToken,
    ) -> Result<Turn, Error> {
        match step {
            Step::Wait if work.began.elapsed() > self.options().build_timeout => {
                Ok(Turn::End(timed_out(work)))
            }
            Step::Wait => Ok(Turn::Pause),
            Step::Finish => Ok(Turn::End(OperationEnd::Done)),
            Step::Fail(cause) => Ok(Turn::End(OperationEnd::Failed(failure_of(&cause, &work.agent)))),
            Step::Follow { build } => {
                self.progress(work, Progress::Following { build, ended_at: None }).await
            }
            Step::NoteEnd { build } => {
                self.progress(work, Progress::Following { build, ended_at: Some(Utc::now()) }).await
            }
            Step::Rescue { until } => self.rescue(work, workspace, until, stop).await,
            Step::CancelBuild => self.cancel_build(workspace).await,
            Step::Send { request, base_build } => {
                if work.slot.is_none() {
                    work.slot = tokio::select! {
                        slot = self.0.slots.take() => Some(slot),
                        () = stop.cancelled() => return Ok(Turn::Again),
                    };
                    // Time spent in the queue is not the build's.
                    work.began = Instant::now();
                }
                self.send(work, request, base_build).await
            }
        }
    }

    pub(super) async fn progress(&self, work: &mut Work, progress: Progress) -> Result<Turn, Error> {
        let recorded = self.store().operation_progress(work.operation.id, progress, Utc::now()).await;
        work.even_unrecorded(recorded.map_err(Error::from))?;
        work.operation.progress = progress;
        self.nudge_operations();
        Ok(Turn::Again)
    }

    /// Not every user may cancel builds: then the delete waits for the build's own end.
    async fn cancel_build(&self, workspace: Option<&Workspace>) -> Result<Turn, Error> {
        if let Some(workspace) = workspace
            && let Err(error) = self.coder().build_cancel(workspace.latest_build.id).await
        {
            tracing::debug!(%error, "the build in the way could not be canceled; waiting for its end");
        }
        Ok(Turn::Pause)
    }
}

impl Work {
    /// A stop goes on when the disk takes no record of its steps: it was accepted, a repeat of it does no harm, and
    /// what it ends may be what fills the disk.
    fn even_unrecorded<T>(&self, recorded: Result<T, Error>) -> Result<(), Error> {
        match recorded {
            Err(Error::DiskFull) if self.operation.kind == OperationKind::Stop => Ok(()),
            other => other.map(drop),
        }
    }

    /// Waits before the next look, twice as long each time nothing happens.
    async fn pause(&mut self, stop: &CancellationToken) {
        let delay = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(self.n_quiet)).min(LONGEST_PAUSE);
        self.n_quiet = self.n_quiet.saturating_add(1);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = stop.cancelled() => {}
        }
    }
}

fn is_rate_limit(error: &CoderError) -> bool {
    matches!(error.kind(), ErrorKind::RateLimited { .. })
}
