//! Routes that start, stop and restart an agent.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AgentPath, IdempotencyKey, Reply};
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::view::agent::AgentChanged;
use crate::view::request::ChangeAgentInput;
use crate::web::WebState;
use crate::web::arguments::Arguments;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default()
        .routes(routes!(start_agent))
        .routes(routes!(stop_agent))
        .routes(routes!(restart_agent))
}

/// Starts the workspace of a stopped agent, or repairs a failed or unreachable agent by a stop and a start.
///
/// No effect on a running, reachable agent.
#[utoipa::path(post, path = "/agents/{name}/start", tag = "agents", params(AgentPath, IdempotencyKey),
    request_body = Option<ChangeAgentInput>,
    responses((status = 200, body = AgentChanged, description = "Accepted, or nothing had to be changed.")))]
async fn start_agent(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<ChangeAgentInput>,
) -> Reply<AgentChanged> {
    let mutation = fleet.agent_start(&caller, input.into_command()?).await?;
    Ok(Json(AgentChanged::from(&mutation)))
}

/// Stops an agent's workspace. No effect on a stopped agent.
#[utoipa::path(post, path = "/agents/{name}/stop", tag = "agents", params(AgentPath, IdempotencyKey),
    request_body = Option<ChangeAgentInput>,
    responses((status = 200, body = AgentChanged, description = "Accepted, or nothing had to be changed.")))]
async fn stop_agent(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<ChangeAgentInput>,
) -> Reply<AgentChanged> {
    let mutation = fleet.agent_stop(&caller, input.into_command()?).await?;
    Ok(Json(AgentChanged::from(&mutation)))
}

/// Stops and starts an agent's workspace.
#[utoipa::path(post, path = "/agents/{name}/restart", tag = "agents", params(AgentPath, IdempotencyKey),
    request_body = Option<ChangeAgentInput>,
    responses((status = 200, body = AgentChanged, description = "Accepted.")))]
async fn restart_agent(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<ChangeAgentInput>,
) -> Reply<AgentChanged> {
    let mutation = fleet.agent_restart(&caller, input.into_command()?).await?;
    Ok(Json(AgentChanged::from(&mutation)))
}
