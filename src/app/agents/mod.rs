//! Use cases of agents: create, list, show, change, delete, wait.

mod change;
mod create;
mod delete;
mod list;
mod metadata;
pub(super) mod parameters;
mod show;
mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(in crate::app) use create::{AgentDraft, NOT_CREATED, new_agent};

use super::Fleet;
use super::caller::{AgentPermit, AuditedCall, Caller};
use super::error::Error;
use super::rescue::RescuedWork;
use super::snapshot::AgentState;
use crate::domain::access::{Action, AgentTarget, Target};
use crate::domain::agent::{AgentStatus, Until};
use crate::domain::id::{OperationId, WorkspaceId};
use crate::domain::metadata::MetadataKey;
use crate::domain::name::AgentName;
use crate::domain::page::{Page, PageRequest};
use crate::domain::spec::Spec;

#[derive(Debug, Clone)]
pub struct CreateAgent {
    pub project: String,
    pub spec: Spec,
    pub name: Option<AgentName>,
    pub role: Option<String>,
    pub pull_request_url: Option<String>,
    pub request: Option<RequestToken>,
    pub wait: Duration,
}

/// A caller's key for a request and the fingerprint of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestToken {
    pub key: String,
    pub fingerprint: [u8; 32],
}

#[derive(Debug, Clone)]
pub struct ListAgents {
    /// None: all but deleted agents.
    pub statuses: Option<Vec<AgentStatus>>,
    pub project: Option<String>,
    pub role: Option<String>,
    pub page: PageRequest,
    pub include_runs: bool,
}

#[derive(Debug, Clone)]
pub struct ChangeAgent {
    pub name: String,
    pub request: Option<RequestToken>,
    pub wait: Duration,
}

#[derive(Debug, Clone)]
pub struct DeleteAgent {
    pub name: String,
    pub work: UnpushedWork,
    pub request: Option<RequestToken>,
    pub wait: Duration,
}

/// What becomes of unpushed work at a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpushedWork {
    Keep,
    Discard,
}

#[derive(Debug, Clone)]
pub struct WaitAgents {
    /// Empty: all agents.
    pub names: Vec<String>,
    pub until: Until,
    pub timeout: Duration,
    pub cursor: Option<i64>,
}

#[derive(Debug, Clone)]
pub struct SetMetadata {
    /// None: the calling agent itself.
    pub name: Option<String>,
    pub key: MetadataKey,
    pub value: String,
}

#[derive(Debug, Clone)]
pub struct AgentPage {
    pub page: Page<Arc<AgentState>>,
    pub counts: BTreeMap<AgentStatus, u64>,
}

#[derive(Debug, Clone)]
pub struct Mutation {
    pub agent: Arc<AgentState>,
    pub message: String,
    pub operation: Option<OperationId>,
    pub warnings: Vec<String>,
    /// Read before the agent, so that a wait from this cursor misses no later change.
    pub cursor: i64,
}

#[derive(Debug, Clone)]
pub struct Deletion {
    pub name: AgentName,
    pub workspace: Option<WorkspaceId>,
    pub message: String,
    pub operation: Option<OperationId>,
    /// The saved work, if the rescue has ended.
    pub rescued: Option<RescuedWork>,
}

#[derive(Debug, Clone)]
pub struct WaitResult {
    pub changed: Vec<AgentChange>,
    pub cursor: i64,
    pub timed_out: bool,
}

#[derive(Debug, Clone)]
pub struct AgentChange {
    pub agent: Arc<AgentState>,
    pub previous_status: Option<AgentStatus>,
    /// The number of the change: a wait from this revision misses nothing.
    pub revision: i64,
}

/// The reason for an unavailable answer before the first poll.
const NOT_POLLED: &str = "the list of workspaces has not been read yet";

impl Fleet {
    /// The live agent of that name, if the caller may act on it.
    pub(in crate::app) async fn agent_permitted<'a, A: Copy + Into<Action>>(
        &self,
        call: &'a AuditedCall<'a, A>,
        name: &str,
    ) -> Result<AgentPermit<'a, A>, Error> {
        let Some(state) = self.board().now().by_name(name).cloned() else {
            self.permit(call, Target::Absent).await?;
            return Err(self.agent_not_found(name));
        };
        self.permit_agent(call, state).await
    }

    /// Not found, or unavailable before the first poll.
    pub(in crate::app) fn agent_not_found(&self, name: &str) -> Error {
        match self.board().now().observed_at {
            None => self.health().now().unavailable(NOT_POLLED),
            Some(_) => Error::AgentNotFound(name.to_owned()),
        }
    }
}

pub(in crate::app) fn target_of(state: &AgentState) -> AgentTarget<'_> {
    AgentTarget {
        id: state.agent.id,
        project: &state.agent.project,
        kind: state.kind,
        created_by: state.agent.created_by.as_deref(),
    }
}

pub(in crate::app) fn audited_call<'a, A>(caller: &'a Caller, action: A, target: &str) -> AuditedCall<'a, A> {
    AuditedCall { caller, action, target: Some(target.to_owned()) }
}
