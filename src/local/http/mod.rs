//! The HTTP surface: every route, behind the origin check and the rate limit.

mod agents;
pub(crate) mod answer;
mod app_status;
mod apps;
mod auth;
mod builds;
mod create;
mod deployment;
pub(crate) mod limit;
mod metadata;
mod origin;
mod search;
mod templates;
mod terminal;
mod workspaces;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, any, get, patch, post};
use axum::{Router, middleware};
use http::StatusCode;

use super::Deployment;
use answer::Refusal;

pub(crate) fn router(deployment: Arc<Deployment>) -> Router {
    let api = Router::new()
        .merge(site_routes())
        .merge(workspace_routes())
        .merge(build_routes())
        .merge(agent_routes())
        .fallback(no_route);
    Router::new()
        .nest("/api/v2", api)
        .route("/@{user}/{workspace}/apps/{slug}", get(apps::add_slash))
        .route("/@{user}/{workspace}/apps/{slug}/", any(apps::root))
        .route("/@{user}/{workspace}/apps/{slug}/{*path}", any(apps::path))
        .fallback(no_route)
        .method_not_allowed_fallback(no_route)
        .layer(middleware::from_fn_with_state(Arc::clone(&deployment), limit::count))
        .layer(middleware::from_fn(origin::guard))
        .with_state(deployment)
}

fn site_routes() -> Router<Arc<Deployment>> {
    Router::new()
        .route("/buildinfo", get(deployment::build_info))
        .route("/organizations", get(deployment::organizations))
        .route("/templates", get(templates::list))
        .route("/organizations/{organization}/templates/{name}", get(templates::show_by_name))
        .route("/templateversions/{id}/rich-parameters", get(templates::parameters))
        .route("/templateversions/{id}/presets", get(templates::presets))
}

fn workspace_routes() -> Router<Arc<Deployment>> {
    Router::new()
        .route("/organizations/{organization}/members/{user}/workspaces", post(create::create))
        .route("/workspaces", get(workspaces::list))
        .route("/workspaces/{id}", get(workspaces::show))
        .route("/users/{user}/workspace/{name}", get(workspaces::show_by_name))
}

fn build_routes() -> Router<Arc<Deployment>> {
    Router::new()
        .route("/workspaces/{id}/builds", get(builds::list).post(builds::create))
        .route("/workspacebuilds/{id}/cancel", patch(builds::cancel))
        .route("/workspacebuilds/{id}/parameters", get(builds::parameters))
        .route("/workspacebuilds/{id}/logs", get(builds::logs))
}

fn agent_routes() -> Router<Arc<Deployment>> {
    Router::new()
        .route("/workspaceagents/me/app-status", app_status_route())
        .route("/workspaceagents/{id}/watch-metadata", get(metadata::watch))
        .route("/workspaceagents/{id}/pty", get(terminal::connect))
}

/// The only route that agents call, so it has a body limit of its own.
fn app_status_route() -> MethodRouter<Arc<Deployment>> {
    patch(app_status::report).layer(DefaultBodyLimit::max(app_status::BODY_LIMIT))
}

async fn no_route() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "Route not found.")
}
