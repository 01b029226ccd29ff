//! Carries one operation to its end: look, plan, record, act, and again.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app::Fleet;
use crate::app::agents::parameters::Blueprint;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::slots::Slot;
use crate::coder::wire::{Build, CreateBuild, CreateWorkspace, Workspace};
use crate::coder::{CoderError, Deleted, ErrorKind, Outcome};
use crate::domain::agent::{Agent, AgentStatus};
use crate::domain::id::WorkspaceId;
use crate::domain::operation::{Failure, Operation, OperationKind, Progress};
use crate::domain::plan::{BuildState, Cause, Request, Seen, Step, plan};
use crate::domain::status::Verdict;
use crate::domain::words::{JobStatus, Transition};
use crate::store::{OperationEnd, Seen as Sighted, StoreError};

/// How soon to look again: at first at once, for a lost answer, then as seldom as suits a build.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Clocks of Coder and ours may differ by this much when a workspace is told to be ours by its time.
const CLOCK_SKEW: TimeDelta = TimeDelta::seconds(120);

/// An operation under way and what it holds.
struct Work {
    operation: Operation,
    agent: Agent,
    slot: Option<Slot>,
    began: Instant,
    n_quiet: u32,
}

/// What a step led to.
enum Turn {
    Again,
    Pause,
    End(OperationEnd),
}

impl Fleet {
    /// Runs until the operation has ended or `stop` asks for a safe point; errors of ours are tried again.
    pub(super) async fn perform(&self, operation: Operation, stop: CancellationToken) {
        let id = operation.id;
        let span = tracing::info_span!("operation", operation.id = %id, operation.kind = %operation.kind);
        let agent = match self.store().agent_by_id(operation.agent_id).await {
            Ok(Some(agent)) => agent,
            Ok(None) => return,
            Err(error) => return tracing::error!(parent: &span, %error, "the agent's row could not be read"),
        };
        let mut work = Work { operation, agent, slot: None, began: Instant::now(), n_quiet: 0 };
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
            self.sight_now(work.agent.id, workspace).await?;
        }
        let step = plan(work.operation.kind, work.operation.progress, &seen, Utc::now());
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

    async fn own(&self, work: &mut Work, workspace: &Workspace) -> Result<(), Error> {
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

    async fn progress(&self, work: &mut Work, progress: Progress) -> Result<Turn, Error> {
        self.store().operation_progress(work.operation.id, progress, Utc::now()).await?;
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

    /// Records the intent, then sends; whatever the answer, the next look tells what came of it.
    async fn send(&self, work: &mut Work, request: Request, base_build: i64) -> Result<Turn, Error> {
        let create = match request {
            Request::Create => match self.create_request(work).await {
                Err(error) if !error.is_retryable() => return Ok(failed(&error)),
                other => Some(other?),
            },
            Request::Start | Request::Stop | Request::StopThenStart | Request::Delete => None,
        };
        // The first time counts: what is ours was made after it.
        let sent_at = match work.operation.progress {
            Progress::Sending { sent_at, .. } => sent_at,
            Progress::Accepted | Progress::Following { .. } => Utc::now(),
        };
        self.progress(work, Progress::Sending { sent_at, base_build }).await?;
        point("send.recorded");
        let answer = match create {
            Some((organization, body)) => self.send_create(work, organization, &body).await?,
            None => self.send_build(work, request).await,
        };
        point("send.answered");
        self.nudge_poll();
        match answer {
            Ok(build) => {
                self.progress(work, Progress::Following { build: build.build_number, ended_at: None }).await
            }
            Err(error) => Ok(after_failed_send(&error)),
        }
    }

    async fn create_request(&self, work: &Work) -> Result<(uuid::Uuid, CreateWorkspace), Error> {
        let info = self.project_named(&work.agent.project).await?;
        let role = self.role_of_project(&info, &work.agent.role)?;
        let public_url = self.options().public_url.as_deref();
        let body = Blueprint { agent: &work.agent, info: &info, role: &role, public_url }.request()?;
        Ok((info.organization, body))
    }

    async fn send_create(
        &self,
        work: &mut Work,
        organization: uuid::Uuid,
        body: &CreateWorkspace,
    ) -> Result<Result<Build, CoderError>, Error> {
        match self.coder().workspace_create(organization, body).await {
            Ok(workspace) => {
                point("create.answered");
                self.own(work, &workspace).await?;
                Ok(Ok(workspace.latest_build))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    async fn send_build(&self, work: &Work, request: Request) -> Result<Build, CoderError> {
        let body = match request {
            Request::Create | Request::Start => CreateBuild::start(),
            Request::Stop => CreateBuild::stop(),
            Request::StopThenStart => CreateBuild::restart(),
            Request::Delete => CreateBuild::delete(),
        };
        let workspace = work.agent.workspace_id.map(|id| id.0).unwrap_or_default();
        self.coder().build_create(workspace, &body).await
    }

    /// Records the end; a delete that is done takes the agent with it, a create that failed says why.
    async fn conclude(&self, work: &mut Work, end: &OperationEnd) -> Result<(), Error> {
        point("end.reached");
        if work.operation.kind == OperationKind::Delete && *end == OperationEnd::Done {
            self.agent_gone(work.agent.id).await?;
        }
        if let OperationEnd::Failed(failure) = end {
            self.note_failure(work, failure).await?;
        }
        point("end.recording");
        self.store().operation_end(work.operation.id, end, Utc::now()).await?;
        work.slot = None;
        self.nudge_operations();
        self.nudge_poll();
        Ok(())
    }

    /// An agent without a workspace is seen by no poll: its failure is written here. Others are looked at anew.
    async fn note_failure(&self, work: &Work, failure: &Failure) -> Result<(), Error> {
        tracing::warn!(agent.name = %work.agent.name, operation.kind = %work.operation.kind, failure.message, "an operation failed");
        if work.agent.workspace_id.is_some() && work.operation.kind != OperationKind::Create {
            return Ok(());
        }
        let verdict = Verdict::new(AgentStatus::Failed, failure.message.clone());
        self.store()
            .agent_sight(work.agent.id, &Sighted { verdict, generation: 0, observed_at: None })
            .await?;
        self.board_refresh(work.agent.id).await?;
        Ok(())
    }
}

impl Work {
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

/// What no repetition can mend, such as a project that is gone.
fn failed(error: &Error) -> Turn {
    let failure = Failure { code: error.code().as_str().to_owned(), message: error.to_string() };
    Turn::End(OperationEnd::Failed(failure))
}

fn is_rate_limit(error: &CoderError) -> bool {
    matches!(error.kind(), ErrorKind::RateLimited { .. })
}

/// Only a plain refusal ends the operation. A conflict is looked at: it may be our own earlier request.
fn after_failed_send(error: &CoderError) -> Turn {
    match error.kind() {
        ErrorKind::Invalid
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::Gone
        | ErrorKind::Unexpected => {
            let failure =
                Failure { code: "CODER_REJECTED".into(), message: format!("Coder refused: {error}") };
            Turn::End(OperationEnd::Failed(failure))
        }
        ErrorKind::Conflict
        | ErrorKind::Server
        | ErrorKind::Timeout
        | ErrorKind::Cut
        | ErrorKind::Undecodable
        | ErrorKind::Setup
        | ErrorKind::Unreachable
        | ErrorKind::Unauthorized
        | ErrorKind::RateLimited { .. } => Turn::Pause,
    }
}

fn timed_out(work: &Work) -> OperationEnd {
    let message = format!("the build of agent '{}' took too long", work.agent.name);
    OperationEnd::Failed(Failure { code: "TIMEOUT".into(), message })
}

fn failure_of(cause: &Cause, agent: &Agent) -> Failure {
    let (code, message) = match cause {
        Cause::NameTaken => ("ALREADY_EXISTS", format!("agent '{}' already exists", agent.name)),
        Cause::WorkspaceGone => ("NOT_FOUND", format!("the workspace of agent '{}' is gone", agent.name)),
        Cause::BuildFailed(Some(error)) => ("CODER_REJECTED", format!("the build failed: {error}")),
        Cause::BuildFailed(None) => ("CODER_REJECTED", "the build failed".to_owned()),
        Cause::BuildCanceled => ("CODER_REJECTED", "the build was canceled".to_owned()),
        Cause::Overtaken => ("CODER_REJECTED", "another build took over".to_owned()),
    };
    Failure { code: code.to_owned(), message }
}
