//! Waits until the workspace of a member can work; one for runs is started when it is down.

use std::sync::Arc;

use chrono::Utc;
use tokio::time::Instant;

use super::begin::Unbegun;
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::agent::AgentStatus;
use crate::domain::id::AgentId;
use crate::domain::operation::{Operation, OperationKind};
use crate::store::StoreError;

/// Who asks for the start of a workspace that a member needs.
const SQUADS: &str = "start_squad_members";

/// What a workspace is good for now.
enum Stand {
    Ready,
    Coming,
    Down,
}

impl Fleet {
    pub(super) async fn member_place(&self, agent: AgentId) -> Result<Arc<AgentState>, Unbegun> {
        let deadline = Instant::now() + self.options().build_timeout;
        let mut looks = self.board().looks();
        let mut operations = self.0.operations.subscribe();
        let mut was_started = false;
        loop {
            looks.mark_unchanged();
            operations.mark_unchanged();
            let snapshot = self.board().now();
            let state = snapshot.by_id(agent).ok_or_else(|| Unbegun::ended("its workspace was deleted"))?;
            match self.stand(state).await? {
                Stand::Ready => return Ok(Arc::clone(state)),
                Stand::Coming => {}
                Stand::Down if state.agent.name.is_of_runs() && !was_started => {
                    was_started = true;
                    self.member_start_workspace(agent).await?;
                }
                Stand::Down => return Err(down(state)),
            }
            tokio::select! {
                _ = looks.changed() => {}
                _ = operations.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    let name = &state.agent.name;
                    return Err(Unbegun::ended(format!("agent '{name}' did not become ready in time")));
                }
            }
        }
    }

    async fn stand(&self, state: &AgentState) -> Result<Stand, Error> {
        let sighting = &state.agent.sighting;
        // What was known before our own start may be long over.
        if state.live.observation.is_none() && state.agent.workspace_id.is_some() {
            return Ok(Stand::Coming);
        }
        Ok(match sighting.status {
            AgentStatus::Idle | AgentStatus::Busy if state.live.workspace_agent.is_some() => Stand::Ready,
            AgentStatus::Idle | AgentStatus::Busy => Stand::Coming,
            AgentStatus::Pending | AgentStatus::Starting => Stand::Coming,
            AgentStatus::Stopping
            | AgentStatus::Stopped
            | AgentStatus::Failed
            | AgentStatus::Canceling
            | AgentStatus::Canceled => {
                let is_coming = self.is_being_started(state.agent.id).await?;
                if is_coming { Stand::Coming } else { Stand::Down }
            }
            AgentStatus::Deleting | AgentStatus::Deleted => Stand::Down,
        })
    }

    async fn member_start_workspace(&self, agent: AgentId) -> Result<(), Unbegun> {
        let start = Operation::accepted(agent, OperationKind::Start, SQUADS, Utc::now());
        let no_key = None;
        match self.store().operation_accept(&start, no_key).await {
            Err(StoreError::BeingDeleted) => return Err(Unbegun::ended("its workspace is being deleted")),
            accepted => accepted?,
        };
        self.nudge_operations();
        Ok(())
    }
}

fn down(state: &AgentState) -> Unbegun {
    let agent = &state.agent;
    let (status, reason) = (agent.sighting.status, &agent.sighting.reason);
    Unbegun::ended(format!("agent '{}' is not running ({status}): {reason}", agent.name))
}
