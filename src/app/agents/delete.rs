//! Deleting an agent: it overtakes whatever else was asked of it and ends when the workspace is gone.

use std::sync::Arc;

use chrono::Utc;

use super::{DeleteAgent, Deletion, deed, request_key};
use crate::app::Fleet;
use crate::app::caller::{Caller, Deed};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::access::Action;
use crate::domain::agent::AgentStatus;
use crate::domain::operation::{Operation, OperationKind, OperationState};
use crate::domain::status::Verdict;
use crate::store::{Accepted, Seen};

impl Fleet {
    pub async fn agent_delete(&self, caller: &Caller, request: DeleteAgent) -> Result<Deletion, Error> {
        let deed = deed(caller, Action::AgentDelete, &request.name);
        let accepted = self.delete_accept(&deed, &request).await;
        let (state, operation) = self.audited(&deed, accepted, |(_, operation)| Some(operation.id)).await?;
        point("delete.accepted");
        self.nudge_operations();
        self.await_operation(operation.id, operation.agent_id, request.wait).await?;
        let ended = self.store().operation_by_id(operation.id).await?;
        let name = state.agent.name.clone();
        let message = match ended.map(|operation| (operation.state, operation.failure)) {
            Some((OperationState::Done, _)) => format!("agent '{name}' is deleted"),
            Some((OperationState::Failed, Some(failure))) => return Err(Error::Operation(failure)),
            Some(_) | None => format!("agent '{name}' is being deleted"),
        };
        Ok(Deletion { name, workspace: state.agent.workspace_id, message, operation: Some(operation.id) })
    }

    async fn delete_accept(
        &self,
        deed: &Deed<'_>,
        request: &DeleteAgent,
    ) -> Result<(Arc<AgentState>, Operation), Error> {
        let state = self.agent_permitted(deed, &request.name).await?;
        let agent = state.agent.id;
        let open = self.store().operations_of(agent, 1).await?;
        let running = open.into_iter().find(|op| op.kind == OperationKind::Delete && !op.state.is_ended());
        if let Some(operation) = running {
            return Ok((state, operation));
        }
        let operation =
            Operation::accepted(agent, OperationKind::Delete, &deed.caller.principal.name, Utc::now());
        let key = request_key(deed.caller, deed.action, request.request.as_ref());
        match self.store().operation_accept(&operation, key.as_ref()).await? {
            Accepted::New => {}
            Accepted::Repeated(earlier) => return Ok((state, earlier)),
        }
        self.store().operations_cancel_before(operation.id, agent, Utc::now()).await?;
        let verdict = Verdict::new(AgentStatus::Deleting, "the delete was accepted");
        let seen = Seen { verdict, generation: state.agent.sighting.generation, observed_at: None };
        self.store().agent_sight(agent, &seen).await?;
        self.board_refresh(agent).await?;
        Ok((state, operation))
    }
}
