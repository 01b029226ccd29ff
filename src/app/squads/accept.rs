//! Accepts a squad: all roles and rights are checked before anything is stored; further failures are per member.

use chrono::{DateTime, Utc};

use super::workspace::{MemberTarget, MemberWorkspace};
use super::{NewMember, StartSquad};
use crate::app::Fleet;
use crate::app::caller::{AuditedCall, Caller, Permit, SquadRun};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::domain::history::HistoryLine;
use crate::domain::id::{SquadId, TaskId};
use crate::domain::role::Role;
use crate::domain::squad::{Member, MemberChat, Persona, Squad, StateMode, prompt};
use crate::domain::task::{Task, TaskOrigin, TaskSource, TaskWork};
use crate::store::{RequestKey, SquadAccepted};

impl Fleet {
    /// Accepts a squad, which continues independently of the caller.
    pub async fn squad_start(&self, caller: &Caller, request: StartSquad) -> Result<SquadId, Error> {
        let call = AuditedCall { caller, action: SquadRun, target: None };
        let accepted = self.squad_accept(&call, request).await;
        let id = self.audited(&call, accepted, |_| None).await?;
        point("squad.accepted");
        self.nudge_squads();
        Ok(id)
    }

    /// Resolves, permits, then creates: a refused squad has no effect.
    async fn squad_accept(
        &self,
        call: &AuditedCall<'_, SquadRun>,
        request: StartSquad,
    ) -> Result<SquadId, Error> {
        self.action_offered(call.caller, call.action(), call.target.as_deref()).await?;
        let key = self.squad_key(call, &request);
        if let Some(earlier) = self.store().squad_of_key(key.as_ref()).await? {
            return Ok(earlier);
        }
        let roles = self.squad_roles_named(&request.members)?;
        let targets = self.member_targets(call.caller, &request.members).await?;
        let permit = self.squad_permit(call, targets).await?;
        let mut squad = self.squad_without_members(call.caller, request.metadata);
        for ((new, role), target) in request.members.into_iter().zip(roles).zip(permit.target()) {
            let workspace = self.member_workspace(&permit, target).await?;
            squad.members.push(self.member_new(new, &role, workspace, squad.created_at));
        }
        self.squad_commit(&permit, &squad, key.as_ref()).await
    }

    async fn squad_commit(
        &self,
        permit: &Permit<'_, SquadRun, Vec<MemberTarget>>,
        squad: &Squad,
        key: Option<&RequestKey>,
    ) -> Result<SquadId, Error> {
        let source = TaskSource::of(permit.call().caller.principal.kind);
        let tasks = squad.members.iter().filter_map(|member| self.member_task(member, squad, source));
        match self.store().squad_accept(squad, &tasks.collect::<Vec<_>>(), key).await? {
            SquadAccepted::New => Ok(squad.id),
            SquadAccepted::Repeated(earlier) => Ok(earlier),
        }
    }

    /// Computed without Coder: a client that lost the response retries at once.
    fn squad_key(&self, call: &AuditedCall<'_, SquadRun>, request: &StartSquad) -> Option<RequestKey> {
        let key = call.request_key(request.request.as_ref())?;
        let is_at_home = |member: &NewMember| member.agent.is_none() && member.chat.is_none();
        let is_in_directory = self.has_directories() && request.members.iter().any(is_at_home);
        Some(if is_in_directory { call.caller.key_in_directory(key) } else { key })
    }

    /// The roles of all members, or an error that names the first unknown role and all known ones.
    fn squad_roles_named(&self, members: &[NewMember]) -> Result<Vec<Role>, Error> {
        self.0.catalog.reload();
        let files = self.0.catalog.files();
        members.iter().try_for_each(|member| files.check_role("roleId", &member.role))?;
        let named = |member: &NewMember| {
            files.role(&member.role).cloned().ok_or_else(|| Error::CatalogNotFound {
                what: "role",
                name: member.role.clone(),
                known: files.roles.values().map(|role| role.id.as_str()).collect::<Vec<_>>().join(", "),
            })
        };
        members.iter().map(named).collect()
    }

    fn squad_without_members(&self, caller: &Caller, metadata: Option<String>) -> Squad {
        let options = &self.options().squads;
        Squad {
            id: SquadId::fresh(),
            principal: caller.principal.signature(),
            state_mode: options.state_mode,
            execution_mode: options.mode(self.options().engine.word),
            delay: options.delay,
            timeout: options.timeout,
            metadata,
            created_at: Utc::now(),
            members: Vec::new(),
        }
    }

    fn member_new(
        &self,
        new: NewMember,
        role: &Role,
        workspace: MemberWorkspace,
        now: DateTime<Utc>,
    ) -> Member {
        let is_follow_up = new.chat.is_some();
        let persona = match self.options().squads.state_mode {
            StateMode::Stateless => Persona::Once(&role.prompt),
            StateMode::Stateful if is_follow_up => Persona::KnownChat,
            StateMode::Stateful => Persona::NewChat(&role.prompt),
        };
        let chat = MemberChat { id: new.chat, is_follow_up };
        let (agent, refusal) =
            workspace.map_or_else(|reason| (None, Some(reason)), |agent| (Some(agent), None));
        let member = Member {
            id: TaskId::fresh(),
            role: role.id.clone(),
            prompt: prompt(persona, &new.task),
            task: new.task,
            wanted_cwd: new.cwd,
            cwd: None,
            agent,
            chat: (self.options().squads.state_mode == StateMode::Stateful).then_some(chat),
            engine: None,
            run: None,
            refusal: None,
            began_at: None,
            ended_at: None,
        };
        match refusal {
            Some(reason) => member.refused(reason, now),
            None => member,
        }
    }

    /// The member's entry in the history of the agent it works in.
    fn member_task(&self, member: &Member, squad: &Squad, source: TaskSource) -> Option<Task> {
        let agent_id = member.agent?;
        let known = self.board().now().by_id(agent_id).map(|state| state.agent.sighting.generation);
        let entry = HistoryLine {
            agent_id,
            message: member.task.clone(),
            source,
            generation: known.unwrap_or_default(),
            created_at: squad.created_at,
        };
        Some(Task::accepted(member.id, entry, TaskWork::fresh(TaskOrigin::Run)))
    }
}
