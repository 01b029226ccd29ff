//! Creates an agent: all checks and the stored intent come before the first request to Coder.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;

use super::parameters::Blueprint;
use super::{CreateAgent, Mutation, audited_call};
use crate::app::Fleet;
use crate::app::caller::{AgentCreate, AuditedCall, Caller, Permit};
use crate::app::discovery::ProjectInfo;
use crate::app::error::Error;
use crate::app::here::check_repository;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::access::Target;
use crate::domain::agent::{Agent, AgentStatus, Attention, Sighting};
use crate::domain::history::HistoryLine;
use crate::domain::id::{AgentId, OperationId, TaskId};
use crate::domain::name::AgentName;
use crate::domain::operation::{Operation, OperationEnd, OperationKind};
use crate::domain::role::Role;
use crate::domain::task::{Task, TaskOrigin, TaskSource, TaskWork};
use crate::store::{Accepted, RequestKey, StoreError};

/// The reason shown for a new, pending agent.
pub(in crate::app) const NOT_CREATED: &str = "waiting for the workspace to be created";
/// Attempts to find a free generated name.
const NAME_TRIES: usize = 5;

impl Fleet {
    pub async fn agent_create(&self, caller: &Caller, request: CreateAgent) -> Result<Mutation, Error> {
        let target = request.name.as_ref().map_or("(new)", AgentName::as_str).to_owned();
        let mut call = audited_call(caller, AgentCreate, &target);
        let wait = request.wait;
        let accepted = self.create_accept(&call, request).await;
        call.target = accepted.as_ref().map_or(call.target, |created| Some(created.name.to_string()));
        let accepted = self.audited(&call, accepted, |created| Some(created.operation.id)).await?;
        point("create.accepted");
        self.nudge_operations();
        self.early_failure(&call, &accepted.operation).await?;
        let settled = self.await_operation(accepted.operation.id, accepted.operation.agent_id(), wait);
        self.while_admitted(caller, settled).await?;
        self.created(accepted).await
    }

    async fn create_accept(
        &self,
        call: &AuditedCall<'_, AgentCreate>,
        request: CreateAgent,
    ) -> Result<Created, Error> {
        // The file may name another default role than the last discovery found, and the role decides what is
        // permitted.
        let known = self.project_reread(self.project_named(&request.project).await?);
        let role_name = request.role.as_deref().unwrap_or(&known.project.default_role).to_owned();
        let kind = self.role_kind_or_coding(&role_name);
        let project = known.project.name.clone();
        self.permit(call, Target::NewAgent { project: &project, kind }).await?;
        self.0.catalog.files().check_role("role", &role_name)?;
        let mut key = call.request_key(request.request.as_ref());
        let directory = self.directory_for(call.caller, &known).await?;
        if let Some(directory) = &directory {
            check_repository(directory).await?;
            key = key.map(|key| call.caller.key_in_directory(key));
        }
        // Computed without Coder: a client that lost the response retries at once.
        if let Some(earlier) = self.store().operation_by_key(key.as_ref()).await? {
            return self.created_before(earlier, &request).await;
        }
        let info = self.project_refreshed_in_time(known).await?;
        let role = self.role_of_project(&info, &role_name)?;
        // The role's file may have changed while Coder was queried.
        let permit = self.permit(call, Target::NewAgent { project: &project, kind: role.kind }).await?;
        self.create_record(&permit, PermittedCreate { request, info, role, directory, key }).await
    }

    /// Stores the agent with its create operation; if another agent took the generated name, the next one is tried.
    async fn create_record(
        &self,
        permit: &Permit<'_, AgentCreate, Target<'_>>,
        wanted: PermittedCreate,
    ) -> Result<Created, Error> {
        let PermittedCreate { request, info, role, directory, key } = wanted;
        let principal = &permit.call().caller.principal;
        let signature = principal.signature();
        let mut n_tries = 0;
        loop {
            n_tries += 1;
            let name = self.name_for(&request)?;
            let draft = AgentDraft { name, created_by: &signature, spec: request.spec.as_str() };
            let agent = Agent {
                pull_request_url: request.pull_request_url.clone(),
                directory: directory.clone(),
                ..new_agent(draft, &info, &role)
            };
            self.check_buildable(&agent, &info, &role)?;
            let operation =
                Operation::accepted(agent.id, OperationKind::Create, &principal.name, agent.created_at);
            let task = first_task(&agent, TaskSource::of(principal.kind));
            match self.store().agent_create(&agent, &operation, Some(&task), key.as_ref()).await {
                Ok(Accepted::New) => {
                    self.board_refresh(agent.id).await?;
                    let warnings = warnings_of(&request);
                    return Ok(Created { name: agent.name, operation, warnings, is_repeat: false });
                }
                Ok(Accepted::Repeated(earlier)) => return self.created_before(earlier, &request).await,
                // The next name is generated from a snapshot that includes the taken one.
                Err(StoreError::NameTaken) if request.name.is_none() && n_tries < NAME_TRIES => {}
                Err(StoreError::NameTaken) => return Err(Error::AlreadyExists(agent.name.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The agent that an earlier request with the same key created.
    async fn created_before(&self, operation: Operation, request: &CreateAgent) -> Result<Created, Error> {
        let name = self.state_of(operation.agent_id()).await?.agent.name.clone();
        Ok(Created { name, operation, warnings: warnings_of(request), is_repeat: true })
    }

    /// The requested name unless an agent has it, or a generated one.
    fn name_for(&self, request: &CreateAgent) -> Result<AgentName, Error> {
        let snapshot = self.board().now();
        match &request.name {
            Some(name) if snapshot.by_name(name.as_str()).is_some() && request.request.is_none() => {
                Err(Error::AlreadyExists(name.to_string()))
            }
            Some(name) => Ok(name.clone()),
            None => Ok(AgentName::generate(|name| snapshot.by_name(name.as_str()).is_some())),
        }
    }

    /// Refuses input that Coder would refuse, without a request to Coder.
    pub(in crate::app) fn check_buildable(
        &self,
        agent: &Agent,
        info: &ProjectInfo,
        role: &Role,
    ) -> Result<(), Error> {
        self.check_container(&info.project.name)?;
        self.check_engine(&info.project)?;
        let public_url = self.options().public_url.as_deref();
        Blueprint { agent, info, role, public_url }.request().map(|_| ())
    }

    /// Waits briefly for Coder's first response: a create that Coder refuses leaves no agent, only the error.
    async fn early_failure(
        &self,
        call: &AuditedCall<'_, AgentCreate>,
        operation: &Operation,
    ) -> Result<(), Error> {
        let Some(ended) = self.operation_settled(operation.id, self.limits().early_answer).await? else {
            return Ok(());
        };
        let agent = self.store().agent_by_id(operation.agent_id()).await?;
        let never_was = agent.is_some_and(|agent| agent.workspace_id.is_none());
        match ended.end {
            Some(OperationEnd::Failed(failure)) if never_was => {
                // The audit trail keeps the failure that the store removes.
                self.audit_failure(call, operation.id, &failure).await?;
                self.store().agent_discard(operation.agent_id()).await?;
                self.board_refresh(operation.agent_id()).await?;
                Err(Error::Operation(failure))
            }
            Some(OperationEnd::Done | OperationEnd::Failed(_) | OperationEnd::Canceled(_)) | None => Ok(()),
        }
    }

    async fn created(&self, created: Created) -> Result<Mutation, Error> {
        let cursor = self.board().revision();
        let agent = self.state_of(created.operation.agent_id()).await?;
        let name = &agent.agent.name;
        let message = match (created.is_repeat, agent.agent.sighting.status) {
            (true, _) => format!("agent '{name}' was created by an earlier call with this request_key"),
            (false, AgentStatus::Idle | AgentStatus::Busy) => format!("agent '{name}' is ready"),
            (false, AgentStatus::Deleting | AgentStatus::Deleted) => {
                format!("the create of agent '{name}' was canceled; its workspace is being deleted")
            }
            (false, AgentStatus::Failed) => format!("agent '{name}' failed: {}", agent.agent.sighting.reason),
            (false, AgentStatus::Pending) if let Some(awaited) = self.health().now().awaited() => {
                format!("agent '{name}' was accepted and {awaited}")
            }
            (false, _) => {
                format!("agent '{name}' is being created; call wait_for_agents to wait until it is ready")
            }
        };
        let message = match &agent.live.start_note {
            Some(note) => format!("{message}; {note}"),
            None => message,
        };
        let (operation, warnings) = (Some(created.operation.id), created.warnings);
        Ok(Mutation { agent, message, operation, warnings, cursor })
    }

    /// The agent's current state, deleted or not.
    pub(in crate::app) async fn state_of(&self, id: AgentId) -> Result<Arc<AgentState>, Error> {
        if let Some(state) = self.board().now().by_id(id) {
            return Ok(Arc::clone(state));
        }
        let state = self.board_refresh(id).await?;
        state.ok_or_else(|| Error::AgentNotFound(id.to_string()))
    }
}

/// A permitted create with its resolved inputs.
struct PermittedCreate {
    request: CreateAgent,
    info: ProjectInfo,
    role: Role,
    directory: Option<String>,
    key: Option<RequestKey>,
}

#[derive(Debug)]
struct Created {
    name: AgentName,
    operation: Operation,
    warnings: Vec<String>,
    is_repeat: bool,
}

/// Name, creator and spec of an agent to be created.
pub(in crate::app) struct AgentDraft<'a> {
    pub(in crate::app) name: AgentName,
    pub(in crate::app) created_by: &'a str,
    pub(in crate::app) spec: &'a str,
}

pub(in crate::app) fn new_agent(draft: AgentDraft<'_>, info: &ProjectInfo, role: &Role) -> Agent {
    let now = Utc::now();
    Agent {
        id: AgentId::fresh(),
        name: draft.name,
        workspace_id: None,
        project: info.project.name.clone(),
        role: role.id.clone(),
        spec: draft.spec.to_owned(),
        pull_request_url: None,
        directory: None,
        created_by: Some(draft.created_by.to_owned()),
        created_at: now,
        updated_at: now,
        deleted_at: None,
        sighting: Sighting {
            status: AgentStatus::Pending,
            previous_status: None,
            reason: NOT_CREATED.into(),
            attention: Attention::None,
            generation: 0,
            observed_at: None,
            revision: 0,
        },
    }
}

/// The first task is the agent's first message: the spec with the pull request.
fn first_task(agent: &Agent, source: TaskSource) -> Task {
    let entry = HistoryLine {
        agent_id: agent.id,
        message: agent.first_message(),
        source,
        generation: 1,
        created_at: agent.created_at,
    };
    Task::accepted(TaskId::fresh(), entry, TaskWork::fresh(TaskOrigin::Spec))
}

fn warnings_of(request: &CreateAgent) -> Vec<String> {
    let missing = request.spec.sections().missing;
    if missing.is_empty() {
        Vec::new()
    } else {
        vec![format!("the spec has no heading {}", missing.join(", "))]
    }
}

impl Fleet {
    /// The operation once it has ended, or none if it does not end within the limit.
    pub(in crate::app) async fn operation_settled(
        &self,
        id: OperationId,
        limit: Duration,
    ) -> Result<Option<Operation>, Error> {
        let (wait, mut changes) = (self.wait(limit), self.0.operations.subscribe());
        loop {
            let operation = self.store().operation_by_id(id).await?;
            match operation {
                Some(operation) if operation.is_ended() || is_followed(&operation) => {
                    return Ok(operation.is_ended().then_some(operation));
                }
                Some(_) => {}
                None => return Ok(None),
            }
            if !wait.goes_on(changes.changed()).await {
                return Ok(None);
            }
        }
    }
}

/// Coder has accepted the build; from here on its end is awaited elsewhere.
fn is_followed(operation: &Operation) -> bool {
    matches!(operation.progress, crate::domain::operation::Progress::Following { .. })
}
