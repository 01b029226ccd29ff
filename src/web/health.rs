//! Liveness and readiness of the process, for monitoring.

use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::WebState;
use crate::app::Fleet;

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default().routes(routes!(healthz)).routes(routes!(readyz))
}

/// Liveness: whether the process responds.
#[utoipa::path(get, path = "/healthz", tag = "server", security(()),
    responses((status = 200, body = String, content_type = "text/plain", description = "`ok`: the process responds.")))]
async fn healthz() -> &'static str {
    "ok"
}

/// Readiness: whether the store and Coder respond.
#[utoipa::path(get, path = "/readyz", tag = "server", security(()), responses(
    (status = 200, body = String, content_type = "text/plain", description = "`ok`: the fleet is ready."),
    (status = 503, body = String, content_type = "text/plain", description = "The failing part: `store` or `coder`."),
))]
async fn readyz(State(fleet): State<Fleet>) -> (StatusCode, &'static str) {
    if fleet.store_ping().await.is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "store");
    }
    if !fleet.health().now().is_reachable() {
        return (StatusCode::SERVICE_UNAVAILABLE, "coder");
    }
    (StatusCode::OK, "ok")
}
