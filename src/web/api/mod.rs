//! `/api/v1`: one route per tool, with the tool's name.

mod access;
mod agents;
mod catalog;
mod events;
mod life_cycle;
mod operations;
mod rescues;
mod server;
mod squads;
mod tasks;

use axum::Json;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;

use super::WebState;
use super::problem::Problem;

type Reply<T> = Result<Json<T>, Problem>;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default()
        .merge(agents::routes())
        .merge(life_cycle::routes())
        .merge(tasks::routes())
        .merge(squads::routes())
        .merge(events::routes())
        .merge(rescues::routes())
        .merge(operations::routes())
        .merge(catalog::routes())
        .merge(access::routes())
        .merge(server::routes())
}

/// The agent that a path names.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only documents; the arguments are gathered as one input")]
struct AgentPath {
    /// The agent's name, in any case.
    #[param(example = "brave-otter")]
    name: String,
}

/// The header by which our own programs say where they are called.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it only documents; the caller is identified before the arguments are read")]
struct CallersDirectory {
    /// What the project 'here' means to this caller, as a path or a file URL; left out: where the server was started.
    #[param(rename = "fleet-directory")]
    directory: Option<String>,
}

/// The header that stands for request_key.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it only documents; the arguments are gathered as one input")]
struct IdempotencyKey {
    /// The same as request_key: makes a repeated call the same call.
    #[param(rename = "Idempotency-Key")]
    key: Option<String>,
}
