//! The HTTP surface: REST, events, health and metrics, and the guard around everything served.
//!
//! A handler is parse (`arguments`), one call to `app`, render; any failure becomes a `problem::Problem`.

mod api;
mod arguments;
mod attempt;
mod auth;
mod body_limit;
mod caller;
mod credential;
mod health;
mod mcp_body;
mod metrics;
mod observe;
mod openapi;
mod origin;
mod problem;
mod run_to_completion;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware::{from_fn, from_fn_with_state};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;

use crate::app::Fleet;
use crate::serve::OpenRequests;
use crate::view::request::MAX_BODY_BYTES;

pub use crate::serve::Access;
pub use metrics::Metrics;
pub use openapi::openapi;

/// The state of the handlers; clones share it.
#[derive(Debug, Clone, FromRef)]
pub struct WebState {
    pub fleet: Fleet,
    pub access: Access,
    /// Ends event streams; canceled by `shut_down`.
    pub shutdown: CancellationToken,
    /// Awaited at shutdown.
    pub tasks: TaskTracker,
    pub metrics: Metrics,
    /// The open requests of agents.
    pub open_requests: OpenRequests,
    pub version: &'static str,
}

/// `/api/v1/**`, `/healthz`, `/readyz` and `/metrics`, to be served behind [`guard`].
pub fn router(state: WebState) -> Router {
    let (router, _document) = routes().split_for_parts();
    router
        .fallback(problem::no_route)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(from_fn(openapi::name_tool))
        .with_state(state)
}

/// Wraps every route, including unknown ones, in the mandatory layers.
///
/// From the outside in: observation, panics, Host and Origin, a task per request, authentication, the body limit,
/// MCP messages.
pub fn guard(router: Router, state: &WebState) -> Router {
    router
        .layer(from_fn(mcp_body::check))
        .layer(from_fn(body_limit::limit))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(state.clone(), auth::authenticate))
        .layer(from_fn_with_state(state.clone(), run_to_completion::run_to_completion))
        .layer(from_fn_with_state(state.clone(), origin::check))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(from_fn_with_state(state.clone(), observe::observe))
}

fn routes() -> OpenApiRouter<WebState> {
    openapi::start().nest("/api/v1", api::routes()).merge(health::routes()).merge(metrics::routes())
}
