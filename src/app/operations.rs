//! Lists operations and cancels them.

use std::time::Duration;

use chrono::Utc;

use super::Fleet;
use super::agents::{UnpushedWork, audited_call};
use super::caller::{AgentDelete, AuditedCall, Caller, OperationCancel, Permit};
use super::error::Error;
use super::hooks::point;
use crate::domain::access::{Action, AgentTarget, Target, authorize};
use crate::domain::id::{AgentId, OperationId};
use crate::domain::name::name_key;
use crate::domain::operation::{CancelRequest, Operation, OperationEnd, OperationKind, OperationState};
use crate::domain::page::{Page, PageRequest};
pub use crate::store::ListedOperation;
use crate::store::{Accepted, RequestKey, StoreError};

#[derive(Debug, Clone)]
pub struct ListOperations {
    /// Selects one agent.
    pub agent: Option<String>,
    pub ended: EndedOperations,
    pub page: PageRequest,
}

/// Whether the list includes ended operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedOperations {
    Exclude,
    Include,
}

#[derive(Debug, Clone)]
pub struct CancelOperation {
    pub id: String,
    pub wait: Duration,
}

/// A canceled operation.
#[derive(Debug, Clone)]
pub struct Cancellation {
    pub listed: ListedOperation,
    pub message: String,
    /// The delete that removes the workspace of a canceled create.
    pub clean_up: Option<OperationId>,
}

impl Fleet {
    /// Whether the newest open operation starts the agent.
    pub(super) async fn is_being_started(&self, agent: AgentId) -> Result<bool, Error> {
        let newest = self.store().operations_of(agent, 1).await?;
        let is_start = |kind| match kind {
            OperationKind::Create | OperationKind::Start | OperationKind::Restart => true,
            OperationKind::Stop | OperationKind::Delete => false,
        };
        let will_start = |operation: &Operation| {
            !operation.is_ended() && operation.cancel.is_none() && is_start(operation.kind)
        };
        Ok(newest.first().is_some_and(will_start))
    }

    /// Accepts an operation, or finds the earlier one of the key; none if the agent is being deleted.
    pub(super) async fn operation_accept(
        &self,
        (agent, kind): (AgentId, OperationKind),
        requester: &str,
        key: Option<&RequestKey>,
    ) -> Result<Option<Operation>, Error> {
        let operation = Operation::accepted(agent, kind, requester, Utc::now());
        match self.store().operation_accept(&operation, key).await {
            Ok(Accepted::New) => Ok(Some(operation)),
            Ok(Accepted::Repeated(earlier)) => Ok(Some(earlier)),
            Err(StoreError::BeingDeleted) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts an operation that the server itself needs for this action of a caller; false if the agent is being
    /// deleted.
    pub(super) async fn operation_for(
        &self,
        action: Action,
        agent: AgentId,
        kind: OperationKind,
    ) -> Result<bool, Error> {
        let no_key = None;
        let accepted = self.operation_accept((agent, kind), action.name(), no_key).await?;
        self.nudge_operations();
        Ok(accepted.is_some())
    }

    /// Operations of agents that the caller may manage, newest first.
    pub async fn operation_list(
        &self,
        caller: &Caller,
        request: ListOperations,
    ) -> Result<Page<ListedOperation>, Error> {
        let call = AuditedCall { caller, action: Action::OperationList, target: None };
        self.permit(&call, Target::Fleet).await?;
        let agent = request.agent.as_deref().map(name_key);
        let mut found = self.store().operations_listed_open(agent.as_deref()).await?;
        if request.ended == EndedOperations::Include {
            found.extend(self.store().operations_listed_ended(agent.as_deref()).await?);
        }
        let may = |listed: &ListedOperation| {
            authorize(
                &caller.principal,
                Action::OperationCancel,
                Target::Agent(self.target_of_listed(listed)),
            )
            .is_ok()
        };
        found.retain(may);
        let awaited = self.health().now().awaited();
        for listed in found.iter_mut().filter(|listed| !listed.operation.is_ended()) {
            listed.awaited.clone_from(&awaited);
        }
        Ok(request.page.of(&found))
    }

    pub async fn operation_cancel(
        &self,
        caller: &Caller,
        request: CancelOperation,
    ) -> Result<Cancellation, Error> {
        let call = audited_call(caller, OperationCancel, &request.id);
        let accepted = self.operation_cancel_accept(&call, &request.id).await;
        let (listed, awaited) =
            self.audited(&call, accepted, |(listed, _)| Some(listed.operation.id)).await?;
        point("cancel.accepted");
        self.nudge_operations();
        let agent = listed.operation.agent_id();
        let settled = self.await_operation(awaited, agent, request.wait);
        self.while_admitted(caller, settled).await?;
        let id = listed.operation.id;
        let listed = self.store().operation_listed(id).await?.unwrap_or(listed);
        let clean_up = (awaited != id).then_some(awaited);
        let removal = match clean_up {
            Some(clean_up) => self.store().operation_by_id(clean_up).await?,
            None => None,
        };
        Ok(Cancellation { message: message_of(&listed, removal.as_ref()), listed, clean_up })
    }

    /// Returns the operation and the one whose end ends it: a create is undone by a delete.
    async fn operation_cancel_accept(
        &self,
        call: &AuditedCall<'_, OperationCancel>,
        id: &str,
    ) -> Result<(ListedOperation, OperationId), Error> {
        let parsed = id.parse().map(OperationId).ok();
        let found = match parsed {
            Some(id) => self.store().operation_listed(id).await?,
            None => None,
        };
        let Some(listed) = found else {
            self.permit(call, Target::Absent).await?;
            return Err(Error::OperationNotFound(id.to_owned()));
        };
        let permit = self.permit_operation(call, listed).await?;
        let listed = permit.target();
        let operation = &listed.operation;
        if operation.is_ended() {
            return Err(ended(listed, operation.state()));
        }
        let awaited = match operation.kind {
            OperationKind::Create => self.create_undo(&permit).await?,
            OperationKind::Delete if !self.has_workspace(operation).await? => {
                return Err(Error::CleanUp(listed.agent_name.clone()));
            }
            OperationKind::Delete | OperationKind::Start | OperationKind::Stop | OperationKind::Restart => {
                self.cancel_request(&permit).await?
            }
        };
        let (_, listed) = permit.into_parts();
        Ok((listed, awaited))
    }

    async fn cancel_request(
        &self,
        permit: &Permit<'_, OperationCancel, ListedOperation>,
    ) -> Result<OperationId, Error> {
        let (listed, by) = (permit.target(), permit.call().caller.principal.name.clone());
        let request = CancelRequest { by, at: Utc::now() };
        match self.store().operation_cancel(listed.operation.id, &request).await {
            Ok(operation) => Ok(operation.id),
            Err(StoreError::Ended) => {
                let now = self.store().operation_by_id(listed.operation.id).await?;
                Err(ended(listed, now.map_or(OperationState::Done, |operation| operation.state())))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A workspace of an unfinished create has no work to save.
    async fn create_undo(
        &self,
        permit: &Permit<'_, OperationCancel, ListedOperation>,
    ) -> Result<OperationId, Error> {
        let (call, create) = (permit.call(), &permit.target().operation);
        let state = self.state_of(create.agent_id()).await?;
        let delete_call = audited_call(call.caller, AgentDelete, state.agent.name.as_str());
        let permit = self.permit_agent(&delete_call, state).await?;
        let no_key = None;
        let delete = self.delete_begin(&permit, UnpushedWork::Discard, no_key).await;
        Ok(self.audited(&delete_call, delete, |delete| Some(delete.id)).await?.id)
    }

    async fn has_workspace(&self, operation: &Operation) -> Result<bool, Error> {
        let agent = self.store().agent_by_id(operation.agent_id()).await?;
        Ok(agent.is_some_and(|agent| agent.workspace_id.is_some()))
    }

    pub(super) fn target_of_listed<'a>(&self, listed: &'a ListedOperation) -> AgentTarget<'a> {
        AgentTarget {
            id: listed.operation.agent_id(),
            project: &listed.project,
            kind: self.role_kind_or_coding(&listed.role),
            created_by: listed.created_by.as_deref(),
        }
    }
}

fn ended(listed: &ListedOperation, state: OperationState) -> Error {
    Error::OperationEnded { id: listed.operation.id, agent: listed.agent_name.clone(), state }
}

/// Describes the state of the canceled operation.
fn message_of(listed: &ListedOperation, clean_up: Option<&Operation>) -> String {
    let ListedOperation { operation, agent_name, .. } = listed;
    let what = format!("the {} of agent '{agent_name}'", operation.kind);
    let is = end_of(operation.state());
    match (clean_up, &operation.end) {
        (Some(clean_up), _) => format!("{what} {is}; the workspace it created {}", removal_of(clean_up)),
        (None, Some(OperationEnd::Canceled(Some(left)))) => format!("{what} {is}: {left}"),
        (None, _) => format!("{what} {is}"),
    }
}

fn removal_of(clean_up: &Operation) -> String {
    let reason = || clean_up.note().map_or_else(String::new, |note| format!(": {note}"));
    match clean_up.state() {
        OperationState::Pending | OperationState::Running => "is being deleted".to_owned(),
        OperationState::Done => "is deleted".to_owned(),
        OperationState::Failed => format!("could not be deleted{}", reason()),
        OperationState::Canceled => format!("stays, because its delete was canceled{}", reason()),
    }
}

fn end_of(state: OperationState) -> &'static str {
    match state {
        OperationState::Canceled => "is canceled",
        OperationState::Done => "completed before it could be canceled",
        OperationState::Failed => "failed before it could be canceled",
        OperationState::Pending | OperationState::Running => "is being canceled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::AgentId;
    use crate::domain::operation::{Failure, Progress};

    #[test]
    fn a_cancel_says_what_the_record_says() {
        let create =
            Operation::accepted(AgentId(uuid::Uuid::nil()), OperationKind::Create, "ann", Utc::now());
        let message = |clean_up: Option<OperationEnd>, end| {
            let listed = ListedOperation {
                operation: Operation {
                    progress: Progress::Following { build: 1, ended_at: None },
                    end,
                    ..create.clone()
                },
                agent_name: "one".to_owned(),
                project: String::new(),
                role: String::new(),
                created_by: None,
                awaited: None,
            };
            message_of(&listed, Some(&Operation { end: clean_up, ..create.clone() }))
        };
        let failed = || OperationEnd::Failed(Failure { code: "TIMEOUT".into(), message: "no disk".into() });
        let canceled = || OperationEnd::Canceled(None);
        let removed = "; the workspace it created is being deleted";
        let create_of = "the create of agent 'one'";
        let expected = [
            (Some(canceled()), format!("{create_of} is canceled{removed}")),
            (Some(OperationEnd::Done), format!("{create_of} completed before it could be canceled{removed}")),
            (Some(failed()), format!("{create_of} failed before it could be canceled{removed}")),
            (None, format!("{create_of} is being canceled{removed}")),
        ];
        for (end, words) in expected {
            assert_eq!(message(None, end), words);
        }
        let removals = [
            (OperationEnd::Done, "is deleted"),
            (failed(), "could not be deleted: no disk"),
            (
                OperationEnd::Canceled(Some("no disk".into())),
                "stays, because its delete was canceled: no disk",
            ),
        ];
        for (end, words) in removals {
            let expected = format!("{create_of} is canceled; the workspace it created {words}");
            assert_eq!(message(Some(end), Some(canceled())), expected);
        }
    }
}
