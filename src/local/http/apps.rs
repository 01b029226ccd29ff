//! The app proxy: passes requests to an agent's app as a real Coder does.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{OriginalUri, Path, Request, State};
use axum::response::Response;
use http::StatusCode;

use super::answer::Refusal;
use super::auth::SignedInToApp;
use crate::local::Deployment;
use crate::local::deployment_info::{AGENT_NAME, APP_SLUG, USERNAME, is_out_of_reach};
use crate::local::record::Connection;

/// The path of an app: owner, workspace with an optional agent, and slug.
type AppPath = (String, String, String);

/// Relative links in the app need the slash.
pub(super) async fn add_slash(_: SignedInToApp, OriginalUri(uri): OriginalUri) -> Refusal {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Refusal::redirect(StatusCode::TEMPORARY_REDIRECT, &format!("{}/{query}", uri.path()))
}

pub(super) async fn root(
    State(state): State<Arc<Deployment>>,
    _: SignedInToApp,
    Path(app): Path<AppPath>,
    request: Request,
) -> Result<Response, Refusal> {
    forward(&state, &app, request).await
}

pub(super) async fn path(
    State(state): State<Arc<Deployment>>,
    _: SignedInToApp,
    Path((user, workspace, slug, _)): Path<(String, String, String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    forward(&state, &(user, workspace, slug), request).await
}

async fn forward(state: &Deployment, app: &AppPath, request: Request) -> Result<Response, Refusal> {
    let socket = find(state, app)?;
    // Everything behind `/@user/workspace/apps/slug`, still percent-encoded.
    let path = request.uri().path().to_owned();
    let rest = path.splitn(6, '/').nth(5).unwrap_or_default();
    Ok(state.apps.forward(request, &socket, &format!("/{rest}")).await)
}

fn find(state: &Deployment, (user, workspace, slug): &AppPath) -> Result<PathBuf, Refusal> {
    let absent = || Refusal::page(StatusCode::NOT_FOUND, "404 - Application Not Found");
    let (name, agent) = workspace.split_once('.').unwrap_or((workspace, AGENT_NAME));
    // Unlike in the API, `me` is not accepted here.
    if !user.eq_ignore_ascii_case(USERNAME) || agent != AGENT_NAME || slug != APP_SLUG {
        return Err(absent());
    }
    state.read(|memory| {
        let agent = memory.live_named(name).and_then(|workspace| workspace.agent()).ok_or_else(absent)?;
        let is_trusted = is_out_of_reach(&agent.socket);
        match agent.connection {
            Connection::Connected if is_trusted => Ok(agent.socket.clone()),
            Connection::Connected | Connection::Connecting | Connection::Disconnected { .. } => {
                Err(Refusal::page(StatusCode::BAD_GATEWAY, "502 - Bad Gateway"))
            }
        }
    })
}
