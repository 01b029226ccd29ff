//! Routes for squads: roles, start, and status.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{CallersDirectory, IdempotencyKey, Reply};
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::view::request::{NoInput, SquadQuery, SquadStatusInput, StartSquadInput};
use crate::view::shorten::cut_pages;
use crate::view::squad::{OUTPUTS, SquadResult, SquadRoles, SquadStatus};
use crate::web::WebState;
use crate::web::arguments::Arguments;
use crate::web::problem::Problem;

/// The most of each output per response, and the limit on a whole response.
const STREAM_BYTES: u64 = 256 << 10;
const ANSWER_CHARS: usize = 8 << 20;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default().routes(routes!(start_squad_members, squad_status)).routes(routes!(list_roles))
}

/// Lists the roles of squad members.
#[utoipa::path(get, path = "/squads/roles", tag = "squads",
    responses((status = 200, body = SquadRoles, description = "The roles, sorted by id.")))]
async fn list_roles(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(NoInput {}): Arguments<NoInput>,
) -> Reply<SquadRoles> {
    let (roles, problems) = fleet.squad_roles(&caller).await?;
    Ok(Json(SquadRoles::of(&roles, problems)))
}

/// Runs members with different roles, and responds when all have ended, or at once with async.
#[utoipa::path(post, path = "/squads", tag = "squads", params(IdempotencyKey, CallersDirectory),
    request_body(content = StartSquadInput, example = json!({
        "members": [
            { "roleId": "qa-engineer", "task": "Run the tests and report what fails" },
            { "roleId": "reviewer", "task": "Read the newest commit" }
        ],
        "async": true
    })),
    responses((status = 201, body = SquadResult, description = "The members, in the order given.")))]
async fn start_squad_members(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<StartSquadInput>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let is_async = input.is_async;
    let id = fleet.squad_start(&caller, input.into_command(fleet.squad_state_mode())?).await?;
    if !is_async {
        let mut wait = fleet.squad_wait(&caller, id);
        while wait.next().await?.is_some() {}
    }
    let shown = fleet.squad_show(&caller, id, STREAM_BYTES).await?;
    Ok((StatusCode::CREATED, Json(bounded(&SquadResult::from(&shown)))))
}

/// Shows one squad, a page of a member's output, or all running work.
#[utoipa::path(get, path = "/squads", tag = "squads", params(SquadStatusInput),
    responses((status = 200, body = SquadStatus, description = "The overview, the squad or the output.")))]
async fn squad_status(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(input): Arguments<SquadStatusInput>,
) -> Reply<Value> {
    let status = match input.into_query()? {
        SquadQuery::Overview => SquadStatus::from(&fleet.squad_overview(&caller).await?),
        SquadQuery::One { squad, wait } => {
            fleet.squad_await_change(&caller, squad, wait).await?;
            SquadStatus::from(&fleet.squad_show(&caller, squad, STREAM_BYTES).await?)
        }
        SquadQuery::Output(request) => {
            SquadStatus::of_output(&fleet.squad_output(&caller, request).await?, ANSWER_CHARS)
        }
    };
    Ok(Json(bounded(&status)))
}

/// The answer, with the members' outputs shortened if it would be too long.
fn bounded(answer: &impl Serialize) -> Value {
    // Answers have text keys only, so this cannot fail.
    let mut answer = serde_json::to_value(answer).unwrap_or_default();
    cut_pages(&mut answer, &OUTPUTS, ANSWER_CHARS);
    answer
}
