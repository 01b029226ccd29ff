//! Deletes an agent: a delete overtakes all other operations of the agent and ends when the workspace is gone.

use std::sync::Arc;

use chrono::Utc;

use super::{DeleteAgent, Deletion, UnpushedWork, audited_call};
use crate::app::Fleet;
use crate::app::caller::{AgentDelete, AgentPermit, Caller};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::agent::AgentStatus;
use crate::domain::operation::{Operation, OperationEnd, OperationKind};
use crate::domain::rescue::Rescue;
use crate::domain::status::Verdict;
use crate::store::{Accepted, NewSighting, RequestKey};

impl Fleet {
    pub async fn agent_delete(&self, caller: &Caller, request: DeleteAgent) -> Result<Deletion, Error> {
        let call = audited_call(caller, AgentDelete, &request.name);
        let accepted =
            async { self.delete_accept(self.agent_permitted(&call, &request.name).await?, &request).await };
        let (state, operation) =
            self.audited(&call, accepted.await, |(_, operation)| Some(operation.id)).await?;
        point("delete.accepted");
        self.nudge_operations();
        let settled = self.await_operation(operation.id, operation.agent_id(), request.wait);
        self.while_admitted(caller, settled).await?;
        let ended = self.store().operation_by_id(operation.id).await?;
        let name = state.agent.name.clone();
        let message = match ended.and_then(|operation| operation.end) {
            Some(OperationEnd::Done) => format!("agent '{name}' is deleted"),
            Some(OperationEnd::Failed(failure)) => return Err(Error::Operation(failure)),
            Some(OperationEnd::Canceled(left)) => {
                let left = left.map_or_else(String::new, |left| format!(": {left}"));
                format!("the delete of agent '{name}' was canceled{left}")
            }
            None => format!("agent '{name}' is being deleted{}", unsaved(&state, request.work)),
        };
        let rescue = self.store().rescue_of(operation.id).await?;
        Ok(Deletion {
            name,
            workspace: state.agent.workspace_id,
            message: with_rescue(message, rescue.as_ref()),
            operation: Some(operation.id),
            rescued: rescue.and_then(|rescue| self.rescued_work(rescue)),
        })
    }

    async fn delete_accept(
        &self,
        permit: AgentPermit<'_, AgentDelete>,
        request: &DeleteAgent,
    ) -> Result<(Arc<AgentState>, Operation), Error> {
        let key = permit.call().request_key(request.request.as_ref());
        let operation = self.delete_begin(&permit, request.work, key).await?;
        let (_, state) = permit.into_parts();
        Ok((state, operation))
    }

    /// The agent's open delete, or a new one, which cancels all other open operations.
    pub(in crate::app) async fn delete_begin(
        &self,
        permit: &AgentPermit<'_, AgentDelete>,
        work: UnpushedWork,
        key: Option<RequestKey>,
    ) -> Result<Operation, Error> {
        let (state, by) = (permit.target(), &permit.call().caller.principal.name);
        let agent = state.agent.id;
        let operation = Operation::accepted(agent, OperationKind::Delete, by, Utc::now());
        let rescue = rescue_wanted(state, &operation, work);
        match self.store().delete_accept(&operation, rescue.as_ref(), key.as_ref()).await? {
            Accepted::New => {}
            Accepted::Repeated(earlier) => return Ok(earlier),
        }
        point("delete.begun");
        self.store().operations_cancel_before(operation.id, agent, Utc::now()).await?;
        let verdict = Verdict::new(AgentStatus::Deleting, "the delete was accepted");
        let seen = NewSighting { verdict, generation: state.agent.sighting.generation, observed_at: None };
        self.store().agent_sight(agent, &seen).await?;
        self.board_refresh(agent).await?;
        Ok(operation)
    }
}

/// An agent without a workspace has no work to save.
fn rescue_wanted(state: &AgentState, operation: &Operation, work: UnpushedWork) -> Option<Rescue> {
    let agent = &state.agent;
    match work {
        UnpushedWork::Keep if agent.workspace_id.is_some() => {
            Some(Rescue::of(operation.id, (agent.id, &agent.name), &agent.project, operation.created_at))
        }
        UnpushedWork::Keep | UnpushedWork::Discard => None,
    }
}

/// Unpushed work cannot be fetched from a stopped workspace; the message must say so.
fn unsaved(state: &AgentState, work: UnpushedWork) -> &'static str {
    match (work, state.agent.sighting.status) {
        (UnpushedWork::Keep, AgentStatus::Stopped) => {
            "; unpushed work is not saved, because the workspace is not running"
        }
        (UnpushedWork::Keep | UnpushedWork::Discard, _) => "",
    }
}

/// Adds the outcome of the rescue once it is known.
fn with_rescue(message: String, rescue: Option<&Rescue>) -> String {
    match rescue.filter(|rescue| rescue.outcome.is_over()) {
        Some(rescue) => format!("{message}; {}", rescue.outcome),
        None => message,
    }
}
