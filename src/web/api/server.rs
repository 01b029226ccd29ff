//! Routes for the fleet and the server: status, doctor, shutdown, and the OpenAPI document.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Reply;
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::domain::hosting::Hosting;
use crate::view::doctor::DoctorReport;
use crate::view::fleet::{FleetStatus, ShuttingDown};
use crate::view::request::NoInput;
use crate::web::arguments::Arguments;
use crate::web::problem::Problem;
use crate::web::{WebState, openapi};

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default()
        .routes(routes!(fleet_status))
        .routes(routes!(doctor))
        .routes(routes!(shut_down))
        .routes(routes!(show_openapi))
}

/// Shows the state of the whole fleet.
#[utoipa::path(get, path = "/status", tag = "server",
    responses((status = 200, body = FleetStatus,
        description = "Counts, capacity and agents that need attention.")))]
async fn fleet_status(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(NoInput {}): Arguments<NoInput>,
) -> Reply<FleetStatus> {
    let overview = fleet.fleet_status(&caller).await?;
    Ok(Json(FleetStatus::from(&overview)))
}

/// Checks the running server.
#[utoipa::path(get, path = "/doctor", tag = "server",
    responses((status = 200, body = DoctorReport, description = "The checks, with remedies.")))]
async fn doctor(
    State(fleet): State<Fleet>,
    caller: Caller,
    Arguments(NoInput {}): Arguments<NoInput>,
) -> Reply<DoctorReport> {
    let checks = fleet.doctor(&caller).await?;
    Ok(Json(DoctorReport::from(&checks)))
}

/// Stops the server; agents of an embedded Coder stop too, all others keep running.
#[utoipa::path(post, path = "/shutdown", tag = "server",
    responses((status = 202, body = ShuttingDown,
        description = "The server stops when running work has ended or is parked.")))]
async fn shut_down(
    State(state): State<WebState>,
    caller: Caller,
    Arguments(NoInput {}): Arguments<NoInput>,
) -> Result<(StatusCode, Json<ShuttingDown>), Problem> {
    state.fleet.server_stop(&caller, &state.shutdown).await?;
    let message = shutdown_message(state.fleet.hosting()).to_owned();
    Ok((StatusCode::ACCEPTED, Json(ShuttingDown { message })))
}

fn shutdown_message(hosting: &Hosting) -> &'static str {
    match hosting {
        Hosting::Deployment => "the server is shutting down; its agents keep running",
        Hosting::Embedded(_) => {
            "the server is shutting down and stops its agents; the next 'fleet-mcp up' starts them again"
        }
    }
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "server",
    responses((status = 200, body = Value, description = "OpenAPI 3.1.")))]
async fn show_openapi(_caller: Caller, Arguments(NoInput {}): Arguments<NoInput>) -> Json<&'static Value> {
    Json(openapi::document())
}
