//! Looks up the workspace of an operation and decides whether the operation created it.

use chrono::{DateTime, TimeDelta, Utc};

use super::perform::ActiveOperation;
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::coder::wire::Workspace;
use crate::coder::{CoderError, Deleted, ErrorKind};
use crate::domain::id::WorkspaceId;
use crate::domain::operation::{OperationKind, Progress};
use crate::domain::plan::{BuildState, Seen};
use crate::domain::status::Fitness;
use crate::domain::words::{JobStatus, Transition};

/// The tolerated difference between the clocks of Coder and the server.
const CLOCK_SKEW: TimeDelta = TimeDelta::seconds(120);

impl Fleet {
    /// A delete continues from the create's progress, since an unconfirmed create may still produce a workspace.
    pub(super) async fn inherit_create_progress(&self, active: &mut ActiveOperation) -> Result<(), Error> {
        let is_first = active.operation.progress == Progress::Accepted && active.agent.workspace_id.is_none();
        if active.operation.kind != OperationKind::Delete || !is_first {
            return Ok(());
        }
        let earlier = self.store().operations_of(active.agent.id, u32::MAX).await?;
        if let Some(create) = earlier.iter().find(|operation| operation.kind == OperationKind::Create) {
            active.operation.progress = create.progress;
        }
        Ok(())
    }

    /// The workspace by id if known, else by name.
    pub(super) async fn lookup_workspace(
        &self,
        active: &ActiveOperation,
    ) -> Result<Option<Workspace>, CoderError> {
        let nothing_sent = active.operation.progress == Progress::Accepted;
        let found = match active.agent.workspace_id {
            Some(id) => self.coder().workspace(id.0, Deleted::Include).await,
            None if active.operation.kind == OperationKind::Delete && nothing_sent => return Ok(None),
            None => self.coder().workspace_by_name("me", active.agent.name.as_str(), Deleted::Exclude).await,
        };
        match found {
            Ok(workspace) => Ok(Some(workspace)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Gone) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn classify(
        &self,
        active: &mut ActiveOperation,
        workspace: Option<&Workspace>,
    ) -> Result<Seen, Error> {
        let Some(workspace) = workspace else { return Ok(Seen::Gone) };
        if active.agent.workspace_id.is_none() {
            let Progress::Sending { sent_at, .. } = active.operation.progress else {
                return Ok(Seen::Foreign);
            };
            if !self.is_from_this_create(active, workspace, sent_at).await? {
                return Ok(Seen::Foreign);
            }
            self.record_workspace(active, workspace).await?;
        }
        Ok(Seen::Build(newest_build(workspace)))
    }

    /// After an unclear response the template, prompt and time decide whether the operation created this workspace.
    async fn is_from_this_create(
        &self,
        active: &ActiveOperation,
        workspace: &Workspace,
        sent_at: DateTime<Utc>,
    ) -> Result<bool, Error> {
        let Some(known) = self.discovered()?.project(&active.agent.project).cloned() else {
            return Ok(false);
        };
        // The create was sent with a renewed project, so compare with a renewed one.
        let Ok(info) = self.project_refreshed(known).await else { return Ok(false) };
        let info = info?;
        if workspace.template_id != info.template_id || workspace.created_at < sent_at - CLOCK_SKEW {
            return Ok(false);
        }
        // A template push may have renamed or removed the prompt: use the version that was built.
        let version = workspace.latest_build.template_version_id;
        let Some(prompt) = self.prompt_name(version).await? else { return Ok(true) };
        let parameters = self.coder().build_parameters(workspace.latest_build.id).await?;
        let message = active.agent.first_message();
        // Earlier versions of the server sent the spec without the pull request.
        let is_sent = |value: &str| value == message || value == active.agent.spec;
        Ok(parameters.iter().any(|parameter| parameter.name == prompt && is_sent(&parameter.value)))
    }

    pub(super) async fn record_workspace(
        &self,
        active: &mut ActiveOperation,
        workspace: &Workspace,
    ) -> Result<(), Error> {
        let id = WorkspaceId(workspace.id);
        self.store().agent_workspace_set(active.agent.id, id).await?;
        active.agent.workspace_id = Some(id);
        self.board_refresh(active.agent.id).await?;
        point("create.owned");
        Ok(())
    }
}

/// A workspace without a build counts as a failed build: it can be started or deleted.
fn newest_build(workspace: &Workspace) -> BuildState {
    let build = &workspace.latest_build;
    let (job, error) = match workspace.has_build() {
        true => (JobStatus::from_word(&build.job.status), build.job.error.clone()),
        false => (JobStatus::Failed, Some("Coder shows no build".to_owned())),
    };
    BuildState {
        number: build.build_number,
        transition: Transition::from_word(&build.transition),
        job,
        error,
        is_automatic: matches!(build.reason.as_str(), "autostart" | "autostop"),
        fitness: Fitness::Well,
    }
}
