//! Routes for roles and projects.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::view::catalog::{AgentProjects, AgentRoles};
use crate::view::request::{NoInput, RolesInput};
use crate::web::WebState;
use crate::web::arguments::Arguments;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default().routes(routes!(list_agent_roles)).routes(routes!(list_agent_projects))
}

/// Lists the roles an agent can have.
#[utoipa::path(get, path = "/roles", tag = "catalog", params(RolesInput),
    responses((status = 200, body = AgentRoles, description = "Role files, and a project's presets.")))]
async fn list_agent_roles(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<RolesInput>,
) -> Reply<AgentRoles> {
    let found = fleet.role_list(&caller, input.project.as_deref()).await?;
    Ok(Json(AgentRoles::from(&found)))
}

/// Lists the projects that agents can work in.
#[utoipa::path(get, path = "/projects", tag = "catalog",
    responses((status = 200, body = AgentProjects, description = "Projects whose template exists.")))]
async fn list_agent_projects(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(NoInput {}): Arguments<NoInput>,
) -> Reply<AgentProjects> {
    let found = fleet.project_list(&caller).await?;
    Ok(Json(AgentProjects::of(&found, fleet.project_problems())))
}
