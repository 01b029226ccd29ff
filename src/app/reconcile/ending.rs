//! Ends operations and records the consequences.

use chrono::Utc;

use super::perform::{ActiveOperation, StepResult};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::domain::agent::{Agent, AgentStatus, Attention};
use crate::domain::operation::{Failure, OperationEnd, OperationKind};
use crate::domain::plan::{CancelOutcome, Cause};
use crate::domain::status::Verdict;
use crate::store::NewSighting;

impl Fleet {
    /// Records the end; a completed delete also deletes the agent, and a failed create shows its reason.
    pub(super) async fn conclude(
        &self,
        active: &mut ActiveOperation,
        end: &OperationEnd,
    ) -> Result<(), Error> {
        point("end.reached");
        self.rescue_close(active, end).await?;
        if active.operation.kind == OperationKind::Delete && *end == OperationEnd::Done {
            self.agent_gone(active.agent.id).await?;
        }
        match end {
            OperationEnd::Failed(failure) => self.note_failure(active, failure).await?,
            OperationEnd::Done | OperationEnd::Canceled(_) => {
                tracing::info!(
                    agent.name = %active.agent.name, operation.kind = %active.operation.kind,
                    "an operation has ended"
                );
            }
        }
        point("end.recording");
        self.store().operation_end(active.operation.id, end, Utc::now()).await?;
        if matches!(end, OperationEnd::Canceled(_)) {
            self.board_refresh(active.agent.id).await?;
        }
        active.slot = None;
        self.nudge_operations();
        self.nudge_poll();
        Ok(())
    }

    /// Polls never show an agent without a workspace, so the failure of its create or delete is recorded here. Other
    /// agents are polled again.
    async fn note_failure(&self, active: &ActiveOperation, failure: &Failure) -> Result<(), Error> {
        tracing::warn!(
            agent.name = %active.agent.name, operation.kind = %active.operation.kind, failure.message,
            "an operation failed"
        );
        let is_recorded_here = match active.operation.kind {
            OperationKind::Create => true,
            OperationKind::Delete => active.agent.workspace_id.is_none(),
            OperationKind::Start | OperationKind::Stop | OperationKind::Restart => false,
        };
        if !is_recorded_here {
            return Ok(());
        }
        let verdict = Verdict::new(AgentStatus::Failed, failure.message.clone());
        let verdict = Verdict { attention: Attention::Unreachable, ..verdict };
        self.store()
            .agent_sight(active.agent.id, &NewSighting { verdict, generation: 0, observed_at: None })
            .await?;
        self.board_refresh(active.agent.id).await?;
        Ok(())
    }
}

/// Ends the operation with an error that a retry cannot fix, such as a deleted project.
pub(super) fn failed(error: &Error) -> StepResult {
    let failure = Failure { code: error.code().as_str().to_owned(), message: error.to_string() };
    StepResult::End(OperationEnd::Failed(failure))
}

pub(super) fn timed_out(active: &ActiveOperation) -> OperationEnd {
    let name = &active.agent.name;
    let message = match &active.refusal {
        Some(refusal) => format!("Coder did not {} agent '{name}' in time: {refusal}", active.operation.kind),
        None => format!("the build of agent '{name}' timed out"),
    };
    OperationEnd::Failed(Failure { code: "TIMEOUT".into(), message })
}

/// Describes the remains of a canceled operation.
pub(super) fn cancel_summary(left: CancelOutcome) -> &'static str {
    match left {
        CancelOutcome::Nothing => "it was canceled before any request to Coder",
        CancelOutcome::CanceledBuild => "its build was canceled",
        CancelOutcome::FailedBuild => "its build had already failed",
        CancelOutcome::Stopped => "the workspace was stopped and will not be started again",
        CancelOutcome::OtherBuild => "another build had already replaced it",
        CancelOutcome::Gone => "the workspace is gone",
    }
}

pub(super) fn failure_of(cause: &Cause, agent: &Agent) -> Failure {
    let (code, message) = match cause {
        Cause::NameTaken => ("ALREADY_EXISTS", format!("agent '{}' already exists", agent.name)),
        Cause::WorkspaceGone => ("NOT_FOUND", format!("the workspace of agent '{}' is gone", agent.name)),
        Cause::BuildFailed(Some(error)) => ("CODER_REJECTED", format!("the build failed: {error}")),
        Cause::BuildFailed(None) => ("CODER_REJECTED", "the build failed".to_owned()),
        Cause::BuildCanceled => ("CODER_REJECTED", "the build was canceled".to_owned()),
        Cause::Overtaken => ("CODER_REJECTED", "another build replaced it".to_owned()),
        Cause::BeingDeleted => ("AGENT_NOT_READY", format!("agent '{}' is being deleted", agent.name)),
    };
    Failure { code: code.to_owned(), message }
}
