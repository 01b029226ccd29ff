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

/// The agent in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only documents; the arguments are gathered as one input")]
struct AgentPath {
    /// Name of the agent; case is ignored.
    #[param(example = "brave-otter")]
    name: String,
}

/// The header with the client's working directory.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it only documents; the caller is identified before the arguments are read")]
struct CallersDirectory {
    /// Directory of the project 'here', as a path or a file URL; if omitted, the server's start directory.
    #[param(rename = "fleet-directory")]
    directory: Option<String>,
}

/// The header with the idempotency key.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it only documents; the arguments are gathered as one input")]
struct IdempotencyKey {
    /// Idempotency key, the same as request_key: a repeated call with the same key returns the first result.
    #[param(rename = "Idempotency-Key")]
    key: Option<String>,
}
