//! Sends an operation's request: the intent is recorded first, and the next lookup shows the result.

use chrono::Utc;
use uuid::Uuid;

use super::ending::failed;
use super::perform::{ActiveOperation, StepResult};
use crate::app::Fleet;
use crate::app::agents::parameters::Blueprint;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::coder::wire::{Build, CreateBuild, CreateWorkspace};
use crate::coder::{CoderError, ErrorKind, Outcome};
use crate::domain::operation::{Failure, OperationEnd, Progress};
use crate::domain::plan::Request;

impl Fleet {
    /// Records the intent, then sends; with any response, the next lookup shows the result.
    pub(super) async fn send(
        &self,
        active: &mut ActiveOperation,
        request: Request,
        base_build: i64,
    ) -> Result<StepResult, Error> {
        let create = match request {
            Request::Create => match self.create_request(active).await {
                Err(error) if !error.is_retryable() => return Ok(failed(&error)),
                other => match other? {
                    Ok(create) => Some(create),
                    Err(error) => return self.after_failed_request(active, &error),
                },
            },
            Request::Start => None,
            Request::Stop | Request::StopThenStart | Request::Delete => {
                tokio::join!(self.log_keep_last(active.agent.id), self.metadata_keep_last(active.agent.id));
                None
            }
        };
        // Keep the first time: the created workspace is newer than it.
        let sent_at = match active.operation.progress {
            Progress::Sending { sent_at, .. } => sent_at,
            Progress::Accepted | Progress::Following { .. } => Utc::now(),
        };
        self.progress(active, Progress::Sending { sent_at, base_build }).await?;
        point("send.recorded");
        let answer = match create {
            Some((organization, body)) => self.send_create(active, organization, &body).await?,
            None => self.send_build(active, request).await,
        };
        point("send.answered");
        self.nudge_poll();
        match answer {
            Ok(build) => {
                self.progress(active, Progress::Following { build: build.build_number, ended_at: None }).await
            }
            Err(error) => {
                // After an unclear response a build may be running: the next lookup shows it.
                if error.outcome() != Outcome::Unclear {
                    active.slot = None;
                }
                active.refusal = Some(error.to_string());
                Ok(after_failed_send(&error))
            }
        }
    }

    /// The create request for the template's active version; the inner error is Coder's when that version is looked
    /// up.
    async fn create_request(
        &self,
        active: &ActiveOperation,
    ) -> Result<Result<(Uuid, CreateWorkspace), CoderError>, Error> {
        let known = self.project_named(&active.agent.project).await?;
        let info = match self.project_refreshed(known).await? {
            Ok(info) => info,
            Err(error) => return Ok(Err(error)),
        };
        let role = self.role_of_project(&info, &active.agent.role)?;
        let public_url = self.options().public_url.as_deref();
        let body = Blueprint { agent: &active.agent, info: &info, role: &role, public_url }.request()?;
        Ok(Ok((info.organization, body)))
    }

    async fn send_create(
        &self,
        active: &mut ActiveOperation,
        organization: Uuid,
        body: &CreateWorkspace,
    ) -> Result<Result<Build, CoderError>, Error> {
        match self.coder().workspace_create(organization, body).await {
            Ok(workspace) => {
                point("create.answered");
                self.record_workspace(active, &workspace).await?;
                Ok(Ok(workspace.latest_build))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    async fn send_build(&self, active: &ActiveOperation, request: Request) -> Result<Build, CoderError> {
        let body = match request {
            Request::Create | Request::Start => CreateBuild::start(),
            Request::Stop => CreateBuild::stop(),
            Request::StopThenStart => CreateBuild::restart(),
            Request::Delete => CreateBuild::delete(),
        };
        let workspace = active.agent.workspace_id.map(|id| id.0).unwrap_or_default();
        self.coder().build_create(workspace, &body).await
    }
}

/// Only a clear refusal ends the operation. A conflict may be the operation's own earlier request.
fn after_failed_send(error: &CoderError) -> StepResult {
    match error.kind() {
        ErrorKind::Invalid
        | ErrorKind::Forbidden
        | ErrorKind::NotFound
        | ErrorKind::Gone
        | ErrorKind::Unexpected => {
            let failure =
                Failure { code: "CODER_REJECTED".into(), message: format!("Coder refused: {error}") };
            StepResult::End(OperationEnd::Failed(failure))
        }
        ErrorKind::Conflict
        | ErrorKind::Server
        | ErrorKind::Timeout
        | ErrorKind::Cut
        | ErrorKind::Undecodable
        | ErrorKind::Setup
        | ErrorKind::Unreachable
        | ErrorKind::Unauthorized => StepResult::Pause,
        ErrorKind::RateLimited { retry_at } => StepResult::RateLimited { until: retry_at },
    }
}
