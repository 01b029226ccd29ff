//! Starts, stops and restarts agents: a change without effect is only reported, any other becomes an operation.

use std::sync::Arc;
use std::time::Duration;

use super::{ChangeAgent, Mutation, audited_call};
use crate::app::Fleet;
use crate::app::caller::{AgentPermit, Caller};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::app::waiting::either;
use crate::domain::access::Action;
use crate::domain::agent::{AgentStatus, Attention};
use crate::domain::id::{AgentId, OperationId};
use crate::domain::operation::{Operation, OperationKind, OperationState};
use crate::domain::task::{Delivery, Task, TaskOrigin};

/// The changes that go by the same rules.
#[derive(Debug, Clone, Copy)]
enum Change {
    Start,
    Stop,
    Restart,
}

impl Change {
    fn kind(self) -> OperationKind {
        match self {
            Self::Start => OperationKind::Start,
            Self::Stop => OperationKind::Stop,
            Self::Restart => OperationKind::Restart,
        }
    }
}

impl From<Change> for Action {
    fn from(change: Change) -> Self {
        match change {
            Change::Start => Self::AgentStart,
            Change::Stop => Self::AgentStop,
            Change::Restart => Self::AgentRestart,
        }
    }
}

impl Fleet {
    pub async fn agent_start(&self, caller: &Caller, request: ChangeAgent) -> Result<Mutation, Error> {
        self.agent_change(caller, Change::Start, request).await
    }

    pub async fn agent_stop(&self, caller: &Caller, request: ChangeAgent) -> Result<Mutation, Error> {
        self.agent_change(caller, Change::Stop, request).await
    }

    pub async fn agent_restart(&self, caller: &Caller, request: ChangeAgent) -> Result<Mutation, Error> {
        self.agent_change(caller, Change::Restart, request).await
    }

    async fn agent_change(
        &self,
        caller: &Caller,
        change: Change,
        request: ChangeAgent,
    ) -> Result<Mutation, Error> {
        let call = audited_call(caller, change, &request.name);
        let accepted = async {
            let permit = self.agent_permitted(&call, &request.name).await?;
            self.change_accept(permit, &request).await
        };
        let accepted =
            self.audited(&call, accepted.await, |(_, operation)| operation.as_ref().map(|op| op.id)).await?;
        let (state, operation) = accepted;
        let Some(operation) = operation else {
            let message = format!(
                "agent '{}' is already {}; nothing was changed",
                state.agent.name, state.agent.sighting.status
            );
            let cursor = self.board().revision();
            return Ok(Mutation { agent: state, message, operation: None, warnings: Vec::new(), cursor });
        };
        point("change.accepted");
        self.nudge_operations();
        let settled = self.await_operation(operation.id, operation.agent_id(), request.wait);
        self.while_admitted(caller, settled).await?;
        let cursor = self.board().revision();
        let agent = self.state_of(operation.agent_id()).await?;
        let ended = self.store().operation_by_id(operation.id).await?.unwrap_or_else(|| operation.clone());
        let (name, status) = (&agent.agent.name, agent.agent.sighting.status);
        let awaited = self.health().now().awaited().filter(|_| !ended.is_ended());
        let awaited = awaited.map_or_else(String::new, |awaited| format!(" and {awaited}"));
        let message =
            format!("agent '{name}': {} {}; it is {status}{awaited}", change.kind(), outcome_of(&ended));
        Ok(Mutation { agent, message, operation: Some(operation.id), warnings: Vec::new(), cursor })
    }

    async fn change_accept(
        &self,
        permit: AgentPermit<'_, Change>,
        request: &ChangeAgent,
    ) -> Result<(Arc<AgentState>, Option<Operation>), Error> {
        let (call, state) = permit.into_parts();
        let kind = call.action.kind();
        let newest = self.store().operations_of(state.agent.id, 1).await?;
        let open = newest.first().filter(|operation| !operation.is_ended());
        if open.is_none_or(|operation| has_same_goal(operation, kind)) && is_already_requested(kind, &state) {
            return Ok((state, None));
        }
        let (key, by) = (call.request_key(request.request.as_ref()), &call.caller.principal.name);
        match self.operation_accept((state.agent.id, kind), by, key.as_ref()).await? {
            Some(operation) => Ok((state, Some(operation))),
            None => Err(Error::BeingDeleted(state.agent.name.to_string())),
        }
    }

    /// Waits for the end of the operation and for the agent to settle, within the caller's limit.
    pub(in crate::app) async fn await_operation(
        &self,
        id: OperationId,
        agent: AgentId,
        limit: Duration,
    ) -> Result<(), Error> {
        if limit.is_zero() {
            return Ok(());
        }
        let wait = self.wait(limit);
        let (mut operations, mut changes) = (self.0.operations.subscribe(), self.board().changes());
        loop {
            let operation = self.store().operation_by_id(id).await?;
            let is_settled = operation.is_none_or(|operation| self.is_settled(&operation, agent));
            if is_settled || !wait.goes_on(either(operations.changed(), changes.changed())).await {
                return Ok(());
            }
        }
    }

    /// A finished build is not yet a ready agent: an agent in a transient state, or without its spec, is awaited.
    fn is_settled(&self, operation: &Operation, agent: AgentId) -> bool {
        let snapshot = self.board().now();
        let is_moving = snapshot
            .by_id(agent)
            .is_some_and(|state| state.agent.sighting.status.is_moving() || waits_for_spec(state));
        match operation.state() {
            OperationState::Pending | OperationState::Running => false,
            OperationState::Failed | OperationState::Canceled => true,
            OperationState::Done => operation.kind == OperationKind::Delete || !is_moving,
        }
    }
}

/// The state of an accepted change at the end of the wait.
fn outcome_of(operation: &Operation) -> String {
    let word = match operation.state() {
        OperationState::Pending | OperationState::Running => "accepted",
        OperationState::Done => "completed",
        OperationState::Failed => "failed",
        OperationState::Canceled => "canceled",
    };
    match operation.note() {
        Some(note) => format!("{word}: {note}"),
        None => word.to_owned(),
    }
}

/// Whether the newest open operation already leads to the requested state.
fn has_same_goal(open: &Operation, asked: OperationKind) -> bool {
    let goal = |kind| match kind {
        OperationKind::Create | OperationKind::Start | OperationKind::Restart => AgentStatus::Idle,
        OperationKind::Stop => AgentStatus::Stopped,
        OperationKind::Delete => AgentStatus::Deleted,
    };
    open.cancel.is_none() && goal(open.kind) == goal(asked)
}

fn waits_for_spec(state: &AgentState) -> bool {
    let is_undelivered = |task: &Task| {
        task.work.origin == TaskOrigin::Spec && !matches!(task.delivery(), Delivery::Delivered { .. })
    };
    state.agent.sighting.status.is_ready() && state.tasks.open.as_ref().is_some_and(is_undelivered)
}

fn is_already_requested(kind: OperationKind, state: &AgentState) -> bool {
    let status = state.agent.sighting.status;
    match kind {
        // An unreachable agent is awaited, or repaired by a restart.
        OperationKind::Start => {
            let is_reachable = state.agent.sighting.attention != Attention::Unreachable;
            (status.is_ready() && is_reachable) || status == AgentStatus::Starting
        }
        OperationKind::Stop => status == AgentStatus::Stopped,
        OperationKind::Restart | OperationKind::Create | OperationKind::Delete => false,
    }
}
