//! Routes for tasks, logs, and agents' reports.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AgentPath, IdempotencyKey, Reply};
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::view::log::LogPage;
use crate::view::request::{CancelTaskInput, LogInput, ReportInput, StartTaskInput};
use crate::view::task::{CanceledTask, ReportedStatus, StartedTask};
use crate::web::WebState;
use crate::web::arguments::Arguments;
use crate::web::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default()
        .routes(routes!(start_agent_task, cancel_agent_task))
        .routes(routes!(show_agent_log))
        .routes(routes!(report_status))
}

/// Assigns a task to an agent; delivery is retried across failures and restarts.
#[utoipa::path(post, path = "/agents/{name}/tasks", tag = "agents", params(AgentPath, IdempotencyKey),
    request_body(content = StartTaskInput, example = json!({
        "task_description": "Add a test for the login form",
        "when_busy": "queue"
    })),
    responses((status = 201, body = StartedTask,
        description = "Accepted; the task continues in the background.")))]
async fn start_agent_task(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<StartTaskInput>,
) -> Result<(StatusCode, Json<StartedTask>), Problem> {
    let started = fleet.task_start(&caller, input.into_command()?).await?;
    Ok((StatusCode::CREATED, Json(StartedTask::from(&started))))
}

/// Cancels the task an agent is working on; the agent keeps running unless escalate stops its workspace.
#[utoipa::path(delete, path = "/agents/{name}/tasks", tag = "agents", params(AgentPath, CancelTaskInput),
    responses((status = 200, body = CanceledTask, description = "The task, and the step that ended it.")))]
async fn cancel_agent_task(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<CancelTaskInput>,
) -> Reply<CanceledTask> {
    let canceled = fleet.task_cancel(&caller, input.into_command()?).await?;
    Ok(Json(CanceledTask::from(&canceled)))
}

/// Lists the messages to and from an agent, newest first. Also for deleted agents.
#[utoipa::path(get, path = "/agents/{name}/log", tag = "agents", params(AgentPath, LogInput),
    responses((status = 200, body = LogPage, description = "A page of the log.")))]
async fn show_agent_log(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<LogInput>,
) -> Reply<LogPage> {
    let log = fleet.agent_log(&caller, input.into_command()?).await?;
    Ok(Json(LogPage::from(&log)))
}

/// Records an agent's report about itself.
#[utoipa::path(post, path = "/report", tag = "agents",
    request_body(content = ReportInput, example = json!({ "state": "complete", "summary": "The form is fixed" })),
    responses((status = 200, body = ReportedStatus, description = "Recorded.")))]
async fn report_status(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<ReportInput>,
) -> Reply<ReportedStatus> {
    let reported = fleet.status_report(&caller, input.into_command()?).await?;
    Ok(Json(ReportedStatus::from(&reported)))
}
