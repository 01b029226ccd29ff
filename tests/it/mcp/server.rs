//! An MCP endpoint on a running fleet, behind a layer that takes the caller's word for who it is.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use fleet_mcp::app::Fleet;
use fleet_mcp::domain::access::{AllowedProjects, Principal};
use fleet_mcp::domain::role::RoleKind;
use fleet_mcp::mcp::tools::Toolsets;
use fleet_mcp::mcp::transport::{TransportOptions, service};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::harness::{Pace, Scene, caller};

/// A served scene; it stops serving when it is dropped.
pub(super) struct McpServer {
    pub(super) scene: Scene,
    pub(super) url: String,
    _stop: DropGuard,
}

impl McpServer {
    pub(super) async fn start(pace: Pace) -> Self {
        Self::of(Scene::new(pace).await, Toolsets::all()).await
    }

    pub(super) async fn of(scene: Scene, toolsets: Toolsets) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let stop = serve(listener, scene.running.fleet.clone(), toolsets);
        Self { scene, url, _stop: stop }
    }
}

/// Serves until the guard is dropped.
pub(super) fn serve(listener: TcpListener, fleet: Fleet, toolsets: Toolsets) -> DropGuard {
    let shutdown = CancellationToken::new();
    let options = TransportOptions { shutdown: shutdown.clone(), toolsets };
    let app = Router::new()
        .nest_service("/mcp", service(fleet.clone(), options))
        .layer(from_fn_with_state(fleet, identify));
    let stopped = shutdown.clone().cancelled_owned();
    tokio::spawn(async move { axum::serve(listener, app).with_graceful_shutdown(stopped).await });
    shutdown.drop_guard()
}

/// The token is the caller's kind, `agent-NAME` for an agent of the fleet, or `ghost` for no principal.
async fn identify(State(fleet): State<Fleet>, mut request: Request, next: Next) -> Response {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let word = header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or("nobody").to_owned();
    if word == "nobody" {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "code": "UNAUTHENTICATED" }))).into_response();
    }
    if let Some(principal) = principal(&fleet, &word) {
        request.extensions_mut().insert(principal);
    }
    next.run(request).await
}

fn principal(fleet: &Fleet, word: &str) -> Option<Principal> {
    let of_kind = |kind| Some(caller(kind, word).principal);
    match word {
        "operator" => of_kind(RoleKind::Operator),
        "manager" => of_kind(RoleKind::Manager),
        "coding" => of_kind(RoleKind::Coding),
        "narrow" => {
            let projects = AllowedProjects::Only(vec!["dataone".into()]);
            Some(Principal { projects, ..caller(RoleKind::Manager, word).principal })
        }
        agent => {
            let snapshot = fleet.board().now();
            let state = snapshot.by_name(agent.strip_prefix("agent-")?)?;
            Some(Principal { agent: Some(state.agent.id), ..caller(state.kind, agent).principal })
        }
    }
}
