//! Finds the workspace of a member: a named agent's, the caller's own, or that of the project for runs.

use std::sync::Arc;

use chrono::Utc;

use crate::app::Fleet;
use crate::app::agents::{Named, new_agent, target_of};
use crate::app::caller::Deed;
use crate::app::discovery::ProjectInfo;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::access::Target;
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::domain::name::AgentName;
use crate::domain::operation::{Operation, OperationKind};
use crate::domain::squad::Chat;
use crate::store::{Accepted, StoreError};

impl Fleet {
    /// Refused as a whole when the caller may not work there; an agent that is not there is that member's trouble.
    pub(super) async fn member_home(
        &self,
        deed: &Deed<'_>,
        name: Option<&str>,
    ) -> Result<Result<AgentId, String>, Error> {
        let own = deed.caller.principal.agent;
        let snapshot = self.board().now();
        let state = match (name, own) {
            (Some(name), _) => snapshot.by_name(name).ok_or_else(|| self.absent(name).to_string()),
            (None, Some(own)) => snapshot.by_id(own).ok_or_else(|| self.absent("your own").to_string()),
            (None, None) => return self.runs_agent(deed).await.map(Ok),
        };
        match state {
            Ok(state) => {
                self.permit(deed, Target::Agent(target_of(state))).await?;
                Ok(Ok(state.agent.id))
            }
            Err(reason) => {
                self.permit(deed, Target::Absent).await?;
                Ok(Err(reason))
            }
        }
    }

    pub(super) async fn member_home_of_chat(
        &self,
        deed: &Deed<'_>,
        chat: &Chat,
        name: Option<&str>,
    ) -> Result<Result<AgentId, String>, Error> {
        let snapshot = self.board().now();
        let Some(state) = snapshot.by_id(chat.agent) else {
            return Ok(Err(format!("the workspace of chat '{}' is gone; begin a new one", chat.id)));
        };
        self.permit(deed, Target::Agent(target_of(state))).await?;
        let is_elsewhere =
            name.is_some_and(|name| snapshot.by_name(name).is_none_or(|n| n.agent.id != chat.agent));
        if is_elsewhere {
            let home = &state.agent.name;
            return Ok(Err(format!("chat '{}' lives in agent '{home}'; leave agent_name out", chat.id)));
        }
        Ok(Ok(chat.agent))
    }

    /// The workspace for runs in the caller's directory; it is made when it is needed for the first time.
    async fn runs_agent(&self, deed: &Deed<'_>) -> Result<AgentId, Error> {
        let info = self.runs_project().await?;
        let role = self.role_of_project(&info, &info.project.default_role)?;
        self.permit(deed, Target::NewAgent { project: &info.project.name, kind: role.kind }).await?;
        let directory = self.directory_for(deed.caller, &info).await?;
        let name = match self.runs_home(&info, directory.as_deref()) {
            Home::There(id) => return Ok(id),
            Home::ToBeMade(name) => name,
        };
        let signature = deed.caller.principal.signature();
        let agent = Agent { directory, ..new_agent(Named { name, by: &signature, spec: "" }, &info, &role) };
        self.check_buildable(&agent, &info, &role)?;
        let create =
            Operation::accepted(agent.id, OperationKind::Create, &deed.caller.principal.name, Utc::now());
        let (no_task, no_key) = (None, None);
        match self.store().agent_create(&agent, &create, no_task, no_key).await {
            Ok(Accepted::New | Accepted::Repeated(_)) => {
                self.board_refresh(agent.id).await?;
                self.nudge_operations();
                Ok(agent.id)
            }
            // Somebody else needed it at the same time.
            Err(StoreError::NameTaken) => self.runs_agent_of_another(&agent).await,
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn runs_project(&self) -> Result<ProjectInfo, Error> {
        let project = self.options().squads.runs_project.as_deref().ok_or_else(|| {
            let message = "there is no project for runs: name an agent_name, or set project under [runs]";
            Error::invalid("agent_name", message)
        })?;
        self.project_named(project).await
    }

    /// One for each directory, known by that and not by its name: the plain name is for the directory of the server,
    /// which may be another one the next time.
    fn runs_home(&self, info: &ProjectInfo, directory: Option<&str>) -> Home {
        let (snapshot, project) = (self.board().now(), &info.project.name);
        let is_one = |state: &&Arc<AgentState>| {
            let agent = &state.agent;
            agent.name.is_of_runs() && agent.project == *project && agent.directory.as_deref() == directory
        };
        if let Some(state) = snapshot.agents.values().find(is_one) {
            return Home::There(state.agent.id);
        }
        let plain = AgentName::of_runs(project);
        let is_free = snapshot.by_name(plain.as_str()).is_none();
        match directory {
            Some(_) if is_free && directory == self.usual_directory(info).as_deref() => Home::ToBeMade(plain),
            Some(directory) => Home::ToBeMade(AgentName::of_runs_in(project, directory)),
            None => Home::ToBeMade(plain),
        }
    }

    async fn runs_agent_of_another(&self, agent: &Agent) -> Result<AgentId, Error> {
        let known = self.store().agent_newest_by_name(&agent.name.key()).await?;
        let same = known.filter(|known| known.directory == agent.directory);
        let same = same.ok_or_else(|| Error::AlreadyExists(agent.name.to_string()))?;
        let state: Arc<AgentState> = self.state_of(same.id).await?;
        Ok(state.agent.id)
    }
}

/// Where runs work.
enum Home {
    There(AgentId),
    ToBeMade(AgentName),
}
