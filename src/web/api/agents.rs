//! Routes for agents: list, create, show, delete, history, metadata, and waiting.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AgentPath, CallersDirectory, IdempotencyKey, Reply};
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::view::agent::{AgentChanged, AgentDeleted, AgentList, AgentShown, AgentsWaited, MetadataSet};
use crate::view::history::TaskHistory;
use crate::view::request::{
    CreateAgentInput, DeleteAgentInput, HistoryInput, ListAgentsInput, SetMetadataInput, ShowAgentInput,
    WaitInput,
};
use crate::web::WebState;
use crate::web::arguments::Arguments;
use crate::web::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default()
        .routes(routes!(list_agents, create_agent))
        .routes(routes!(show_agent, delete_agent))
        .routes(routes!(show_agent_task_history))
        .routes(routes!(set_agent_metadata))
        .routes(routes!(wait_for_agents))
}

/// Lists the agents, in pages.
#[utoipa::path(get, path = "/agents", tag = "agents", params(ListAgentsInput),
    responses((status = 200, body = AgentList,
        description = "A page of agents, and the counts of the whole fleet.")))]
async fn list_agents(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<ListAgentsInput>,
) -> Reply<AgentList> {
    let page = fleet.agent_list(&caller, input.into_command()?).await?;
    Ok(Json(AgentList::from(&page)))
}

/// Creates an agent: a workspace of the project, with the spec as its first task.
#[utoipa::path(post, path = "/agents", tag = "agents", params(IdempotencyKey, CallersDirectory),
    request_body(content = CreateAgentInput, example = json!({
        "project": "setup",
        "spec": "## Objective\nFix the login bug",
        "role": "coder",
        "wait_seconds": 40
    })),
    responses((status = 201, body = AgentChanged,
        description = "Accepted; the operation continues in the background.")))]
async fn create_agent(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<CreateAgentInput>,
) -> Result<(StatusCode, Json<AgentChanged>), Problem> {
    let mutation = fleet.agent_create(&caller, input.into_command()?).await?;
    Ok((StatusCode::CREATED, Json(AgentChanged::from(&mutation))))
}

/// Shows all details of one agent.
#[utoipa::path(get, path = "/agents/{name}", tag = "agents", params(AgentPath),
    responses((status = 200, body = AgentShown, description = "The agent.")))]
async fn show_agent(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<ShowAgentInput>,
) -> Reply<AgentShown> {
    let state = fleet.agent_show(&caller, &input.agent_name).await?;
    Ok(Json(AgentShown { agent: (&*state).into() }))
}

/// Deletes an agent and its workspace, even while the agent works.
#[utoipa::path(delete, path = "/agents/{name}", tag = "agents",
    params(AgentPath, DeleteAgentInput, IdempotencyKey),
    responses((status = 200, body = AgentDeleted,
        description = "Accepted; the operation ends when the workspace is deleted.")))]
async fn delete_agent(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<DeleteAgentInput>,
) -> Reply<AgentDeleted> {
    let deletion = fleet.agent_delete(&caller, input.into_command()?).await?;
    Ok(Json(AgentDeleted::from(&deletion)))
}

/// Lists the agent's tasks and reports, newest first. Also for deleted agents.
#[utoipa::path(get, path = "/agents/{name}/history", tag = "agents", params(AgentPath, HistoryInput),
    responses((status = 200, body = TaskHistory, description = "A page of the history.")))]
async fn show_agent_task_history(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<HistoryInput>,
) -> Reply<TaskHistory> {
    let history = fleet.agent_history(&caller, input.into_command()?).await?;
    Ok(Json(TaskHistory::from(&history)))
}

/// Sets one metadata value of an agent.
#[utoipa::path(post, path = "/agents/{name}/metadata", tag = "agents", params(AgentPath),
    request_body(content = SetMetadataInput, example = json!({ "key": "fleet_mcp_note", "value": "waits for QA" })),
    responses((status = 200, body = MetadataSet, description = "All metadata of the agent.")))]
async fn set_agent_metadata(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<SetMetadataInput>,
) -> Reply<MetadataSet> {
    let state = fleet.agent_metadata_set(&caller, input.into_command()?).await?;
    Ok(Json(MetadataSet::from(&*state)))
}

/// Waits until an agent changes, or until all agents are idle or have ended their tasks.
///
/// Pass the returned cursor to the next call.
#[utoipa::path(post, path = "/wait", tag = "agents",
    request_body(content = WaitInput, example = json!({ "agent_names": ["brave-otter"], "until": "idle" })),
    responses((status = 200, body = AgentsWaited, description = "The changed agents, or timed_out.")))]
async fn wait_for_agents(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<WaitInput>,
) -> Reply<AgentsWaited> {
    let waited = fleet.agent_wait(&caller, input.into_command()?).await?;
    Ok(Json(AgentsWaited::from(&waited)))
}
