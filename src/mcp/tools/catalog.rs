//! The tools that list roles and projects.

use super::{About, Effect, Entry};
use crate::app::error::Error;
use crate::domain::access::Action;
use crate::mcp::call::Call;
use crate::view::catalog::{AgentProjects, AgentRoles};
use crate::view::request::{NoInput, RolesInput};

pub(super) fn tools() -> Vec<Entry> {
    let projects = About {
        action: Action::ProjectList,
        title: "List projects",
        description: "Lists the projects that agents can work in, with the name for create_agent and the \
            default role.",
        effect: Effect::Reads,
    };
    let roles = About {
        action: Action::RoleList,
        title: "List roles",
        description: "Lists the roles an agent can have, with their purpose. With a project, also the roles \
            of its template and the default role.",
        effect: Effect::Reads,
    };
    vec![Entry::new(projects, list_agent_projects), Entry::new(roles, list_agent_roles)]
}

async fn list_agent_projects(call: Call, _: NoInput) -> Result<AgentProjects, Error> {
    let found = call.fleet.project_list(&call.caller).await?;
    Ok(AgentProjects::of(&found, call.fleet.project_problems()))
}

async fn list_agent_roles(call: Call, input: RolesInput) -> Result<AgentRoles, Error> {
    let found = call.fleet.role_list(&call.caller, input.project.as_deref()).await?;
    Ok(AgentRoles::from(&found))
}
