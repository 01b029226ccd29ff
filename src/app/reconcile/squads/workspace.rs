//! Waits until a member's workspace is ready; a stopped workspace for runs is started.

use std::sync::Arc;

use super::begin::MemberStartError;
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::app::waiting::either;
use crate::domain::access::Action;
use crate::domain::agent::AgentStatus;
use crate::domain::id::AgentId;
use crate::domain::operation::OperationKind;

/// The readiness of a workspace.
enum WorkspaceReadiness {
    Ready,
    Starting,
    Down,
}

impl Fleet {
    pub(super) async fn member_workspace_ready(
        &self,
        agent: AgentId,
    ) -> Result<Arc<AgentState>, MemberStartError> {
        let wait = self.wait(self.options().build_timeout);
        let (mut polls, mut operations) = (self.board().polls(), self.0.operations.subscribe());
        let mut was_started = false;
        loop {
            let snapshot = self.board().now();
            let state =
                snapshot.by_id(agent).ok_or_else(|| MemberStartError::ended("its workspace was deleted"))?;
            match self.workspace_readiness(state).await? {
                WorkspaceReadiness::Ready => return Ok(Arc::clone(state)),
                WorkspaceReadiness::Starting => {}
                WorkspaceReadiness::Down if state.agent.name.is_of_runs() && !was_started => {
                    was_started = true;
                    self.member_start_workspace(agent).await?;
                }
                WorkspaceReadiness::Down => return Err(down(state)),
            }
            if !wait.goes_on(either(polls.changed(), operations.changed())).await {
                let reason = format!("agent '{}' did not become ready in time", state.agent.name);
                // After a shutdown the next server continues the wait.
                if self.0.stopping.is_cancelled() {
                    return Err(MemberStartError::Unresponsive(reason));
                }
                return Err(MemberStartError::ended(reason));
            }
        }
    }

    async fn workspace_readiness(&self, state: &AgentState) -> Result<WorkspaceReadiness, Error> {
        let sighting = &state.agent.sighting;
        // State from before the start of the server may be outdated.
        if state.live.observation.is_none() && state.agent.workspace_id.is_some() {
            return Ok(WorkspaceReadiness::Starting);
        }
        Ok(match sighting.status {
            AgentStatus::Idle | AgentStatus::Busy if state.live.workspace_agent.is_some() => {
                WorkspaceReadiness::Ready
            }
            AgentStatus::Idle | AgentStatus::Busy => WorkspaceReadiness::Starting,
            AgentStatus::Pending | AgentStatus::Starting => WorkspaceReadiness::Starting,
            AgentStatus::Stopping
            | AgentStatus::Stopped
            | AgentStatus::Failed
            | AgentStatus::Canceling
            | AgentStatus::Canceled => {
                let is_starting = self.is_being_started(state.agent.id).await?;
                if is_starting { WorkspaceReadiness::Starting } else { WorkspaceReadiness::Down }
            }
            AgentStatus::Deleting | AgentStatus::Deleted => WorkspaceReadiness::Down,
        })
    }

    async fn member_start_workspace(&self, agent: AgentId) -> Result<(), MemberStartError> {
        if self.operation_for(Action::SquadRun, agent, OperationKind::Start).await? {
            Ok(())
        } else {
            Err(MemberStartError::ended("its workspace is being deleted"))
        }
    }
}

fn down(state: &AgentState) -> MemberStartError {
    let agent = &state.agent;
    let (status, reason) = (agent.sighting.status, &agent.sighting.reason);
    MemberStartError::ended(format!("agent '{}' is not running ({status}): {reason}", agent.name))
}
