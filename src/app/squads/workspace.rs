//! Resolves the workspace of a member: that of a named agent, of the caller, or of the project for runs.

use std::sync::Arc;

use chrono::Utc;

use super::NewMember;
use crate::app::Fleet;
use crate::app::agents::{AgentDraft, new_agent, target_of};
use crate::app::caller::{AgentCreate, AuditedCall, Caller, Permit, SquadRun};
use crate::app::discovery::ProjectInfo;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::access::Target;
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::domain::name::AgentName;
use crate::domain::operation::{Operation, OperationKind};
use crate::domain::role::Role;
use crate::store::{Accepted, StoreError};

/// A member's workspace as far as it can be resolved without an effect.
#[derive(Debug)]
pub(super) enum MemberTarget {
    Agent(Arc<AgentState>),
    /// The workspace for runs, which may not exist yet.
    Runs(Box<RunsProject>),
    /// No agent has the name.
    Absent(String),
    /// The conversation cannot be continued.
    Refused(String),
}

/// The agent in whose workspace a member works, or the reason why there is none.
pub(super) type MemberWorkspace = Result<AgentId, String>;

/// The inputs for creating the workspace for runs.
#[derive(Debug)]
pub(super) struct RunsProject {
    info: ProjectInfo,
    role: Role,
}

impl MemberTarget {
    /// The target that the caller needs a right to; none if nothing is to be done.
    fn target(&self) -> Option<Target<'_>> {
        match self {
            Self::Agent(state) => Some(Target::Agent(target_of(state))),
            Self::Runs(runs) => {
                Some(Target::NewAgent { project: &runs.info.project.name, kind: runs.role.kind })
            }
            Self::Absent(_) => Some(Target::Absent),
            Self::Refused(_) => None,
        }
    }
}

impl Fleet {
    pub(super) async fn member_targets(
        &self,
        caller: &Caller,
        members: &[NewMember],
    ) -> Result<Vec<MemberTarget>, Error> {
        let mut targets = Vec::with_capacity(members.len());
        for member in members {
            targets.push(match &member.chat {
                Some(chat) => self.target_of_chat(caller, chat, member.agent.as_deref()).await?,
                None => self.target_of_new(caller, member.agent.as_deref()).await?,
            });
        }
        Ok(targets)
    }

    /// Refuses the whole squad if the caller may not work in one of the workspaces; a member without one needs only
    /// the right to run squads.
    pub(super) async fn squad_permit<'a>(
        &self,
        call: &'a AuditedCall<'a, SquadRun>,
        targets: Vec<MemberTarget>,
    ) -> Result<Permit<'a, SquadRun, Vec<MemberTarget>>, Error> {
        self.permit_all(call, targets, MemberTarget::target).await
    }

    /// Creates the workspace for runs if it does not exist.
    pub(super) async fn member_workspace(
        &self,
        permit: &Permit<'_, SquadRun, Vec<MemberTarget>>,
        target: &MemberTarget,
    ) -> Result<MemberWorkspace, Error> {
        match target {
            MemberTarget::Agent(state) => Ok(Ok(state.agent.id)),
            MemberTarget::Runs(runs) => self.runs_agent(permit, runs).await.map(Ok),
            MemberTarget::Absent(reason) | MemberTarget::Refused(reason) => Ok(Err(reason.clone())),
        }
    }

    /// The named agent, else the caller's own, else the workspace for runs.
    async fn target_of_new(&self, caller: &Caller, name: Option<&str>) -> Result<MemberTarget, Error> {
        let snapshot = self.board().now();
        let (state, name) = match (name, caller.principal.agent) {
            (Some(name), _) => (snapshot.by_name(name), name),
            (None, Some(own)) => (snapshot.by_id(own), "your own"),
            (None, None) => return self.runs_target().await,
        };
        let absent = || MemberTarget::Absent(self.agent_not_found(name).to_string());
        Ok(state.map_or_else(absent, |state| MemberTarget::Agent(Arc::clone(state))))
    }

    /// A conversation continues in the workspace where it began.
    async fn target_of_chat(
        &self,
        caller: &Caller,
        id: &str,
        name: Option<&str>,
    ) -> Result<MemberTarget, Error> {
        let own = caller.principal.signature();
        let chat = self.store().chat_by_id(id).await?.filter(|chat| chat.principal == own);
        let Some(chat) = chat else {
            let reason = format!("chat '{id}' not found; omit chatId to start a new one");
            return Ok(MemberTarget::Refused(reason));
        };
        let snapshot = self.board().now();
        let Some(state) = snapshot.by_id(chat.agent) else {
            return Ok(MemberTarget::Refused(format!(
                "the workspace of chat '{id}' is gone; omit chatId to start a new one"
            )));
        };
        let is_elsewhere =
            name.is_some_and(|name| snapshot.by_name(name).is_none_or(|named| named.agent.id != chat.agent));
        if is_elsewhere {
            let workspace = &state.agent.name;
            return Ok(MemberTarget::Refused(format!(
                "chat '{id}' belongs to agent '{workspace}'; omit agent_name"
            )));
        }
        Ok(MemberTarget::Agent(Arc::clone(state)))
    }

    async fn runs_target(&self) -> Result<MemberTarget, Error> {
        let info = self.runs_project().await?;
        let role = self.role_of_project(&info, &info.project.default_role)?;
        Ok(MemberTarget::Runs(Box::new(RunsProject { info, role })))
    }

    /// The workspace for runs in the caller's directory, created on first use.
    async fn runs_agent(
        &self,
        permit: &Permit<'_, SquadRun, Vec<MemberTarget>>,
        runs: &RunsProject,
    ) -> Result<AgentId, Error> {
        let (call, RunsProject { info, role }) = (permit.call(), runs);
        let directory = self.directory_for(call.caller, info).await?;
        let name = match self.runs_workspace(info, directory.as_deref()) {
            RunsWorkspace::Existing(id) => return Ok(id),
            RunsWorkspace::New(name) => name,
        };
        let signature = call.caller.principal.signature();
        let agent = Agent {
            directory,
            ..new_agent(AgentDraft { name, created_by: &signature, spec: "" }, info, role)
        };
        self.check_buildable(&agent, info, role)?;
        let create =
            Operation::accepted(agent.id, OperationKind::Create, &call.caller.principal.name, Utc::now());
        let (no_task, no_key) = (None, None);
        match self.store().agent_create(&agent, &create, no_task, no_key).await {
            Ok(Accepted::New | Accepted::Repeated(_)) => {
                let target = Some(agent.name.to_string());
                let made = AuditedCall { caller: call.caller, action: AgentCreate, target };
                self.audited(&made, Ok(create.id), |id| Some(*id)).await?;
                self.board_refresh(agent.id).await?;
                self.nudge_operations();
                Ok(agent.id)
            }
            // A concurrent squad has created it.
            Err(StoreError::NameTaken) => self.runs_agent_of_concurrent_create(&agent).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn runs_project(&self) -> Result<ProjectInfo, Error> {
        let project = self.options().squads.runs_project.as_deref().ok_or_else(|| {
            let message = "no project is set for runs: give agent_name, or set project under [runs] in \
                the settings";
            Error::invalid("agent_name", message)
        })?;
        self.project_named(project).await
    }

    /// There is one workspace per directory, found by its directory: the plain name belongs to the server's
    /// directory, which may differ after a restart.
    fn runs_workspace(&self, info: &ProjectInfo, directory: Option<&str>) -> RunsWorkspace {
        let (snapshot, project) = (self.board().now(), &info.project.name);
        let is_one = |state: &&Arc<AgentState>| {
            let agent = &state.agent;
            agent.name.is_of_runs() && agent.project == *project && agent.directory.as_deref() == directory
        };
        if let Some(state) = snapshot.agents.values().find(is_one) {
            return RunsWorkspace::Existing(state.agent.id);
        }
        let plain = AgentName::of_runs(project);
        let is_free = snapshot.by_name(plain.as_str()).is_none();
        match directory {
            Some(_) if is_free && directory == self.default_directory(info).as_deref() => {
                RunsWorkspace::New(plain)
            }
            Some(directory) => RunsWorkspace::New(AgentName::of_runs_in(project, directory)),
            None => RunsWorkspace::New(plain),
        }
    }

    async fn runs_agent_of_concurrent_create(&self, agent: &Agent) -> Result<AgentId, Error> {
        let known = self.store().agent_newest_by_name(&agent.name.key()).await?;
        let same = known.filter(|known| known.directory == agent.directory);
        let same = same.ok_or_else(|| Error::AlreadyExists(agent.name.to_string()))?;
        let state: Arc<AgentState> = self.state_of(same.id).await?;
        Ok(state.agent.id)
    }
}

/// The workspace for runs: an existing agent, or the name of the agent to create.
enum RunsWorkspace {
    Existing(AgentId),
    New(AgentName),
}
