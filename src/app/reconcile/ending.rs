//! How operations end, and what an end leaves behind.

use chrono::Utc;

use super::perform::{Turn, Work};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::domain::agent::{Agent, AgentStatus};
use crate::domain::operation::{Failure, OperationKind};
use crate::domain::plan::Cause;
use crate::domain::status::Verdict;
use crate::store::{OperationEnd, Seen as Sighted};

impl Fleet {
    /// Records the end; a delete that is done takes the agent with it, a create that failed says why.
    pub(super) async fn conclude(&self, work: &mut Work, end: &OperationEnd) -> Result<(), Error> {
        point("end.reached");
        self.rescue_close(work).await?;
        if work.operation.kind == OperationKind::Delete && *end == OperationEnd::Done {
            self.agent_gone(work.agent.id).await?;
        }
        match end {
            OperationEnd::Failed(failure) => self.note_failure(work, failure).await?,
            OperationEnd::Done | OperationEnd::Canceled => {
                tracing::info!(agent.name = %work.agent.name, operation.kind = %work.operation.kind, "an operation has ended");
            }
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

/// What no repetition can mend, such as a project that is gone.
pub(super) fn failed(error: &Error) -> Turn {
    let failure = Failure { code: error.code().as_str().to_owned(), message: error.to_string() };
    Turn::End(OperationEnd::Failed(failure))
}

pub(super) fn timed_out(work: &Work) -> OperationEnd {
    let message = format!("the build of agent '{}' took too long", work.agent.name);
    OperationEnd::Failed(Failure { code: "TIMEOUT".into(), message })
}

pub(super) fn failure_of(cause: &Cause, agent: &Agent) -> Failure {
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
