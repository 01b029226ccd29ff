//! Serves the terminal of an agent over a WebSocket.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Path, Query, State};
use http::StatusCode;
use uuid::Uuid;

use super::agents::find;
use super::answer::{Answer, Refusal, Validation};
use super::auth::SignedIn;
use crate::local::build::{WorkspaceDirs, with_deadline};
use crate::local::enclosure::{DirectoryAccess, EnclosedPrefix, Terminals};
use crate::local::id::named;
use crate::local::pty::{PtyCommand, PtySpec, SessionLeader, serve_socket};
use crate::local::record::{Agent, Connection};
use crate::local::{Deployment, environment};

const WIDTH: u16 = 80;
const HEIGHT: u16 = 24;

pub(super) async fn connect(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Answer {
    let (agent, reconnect) = (agent_id(&id)?, reconnect(&query)?);
    no_container(&query)?;
    let spec = spec(&state, agent, &query).await?;
    let upgrade = upgrade?;
    // A reconnect id is scoped to one agent.
    let session = named(agent, &reconnect.to_string());
    Ok(upgrade.on_upgrade(async move |socket| {
        let _running = state.tasks.token();
        serve_socket(socket, &state.ptys, session, spec).await;
    }))
}

/// Errors about the agent are pages, as browsers open this route.
fn agent_id(text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text).map_err(|_| absent())
}

fn absent() -> Refusal {
    Refusal::page(StatusCode::NOT_FOUND, "404 - Workspace Agent Not Found")
}

fn reconnect(query: &HashMap<String, String>) -> Result<Uuid, Refusal> {
    let detail = match query.get("reconnect") {
        None => "Query param \"reconnect\" is required and cannot be empty".to_owned(),
        Some(text) => match Uuid::try_parse(text) {
            Ok(id) => return Ok(id),
            Err(_) => {
                format!("Query param \"reconnect\" must be a valid uuid: invalid UUID length: {}", text.len())
            }
        },
    };
    let row = Validation::new("reconnect", &detail);
    Err(Refusal::new(StatusCode::BAD_REQUEST, "Invalid query parameters.").validations(&[row]))
}

/// A client that asks for a container must not get the workspace instead.
fn no_container(query: &HashMap<String, String>) -> Result<(), Refusal> {
    match query.get("container").filter(|name| !name.is_empty()) {
        Some(_) => {
            let row = Validation::new("container", "The embedded Coder has no containers.");
            Err(Refusal::new(StatusCode::BAD_REQUEST, "Invalid query parameters.").validations(&[row]))
        }
        None => Ok(()),
    }
}

async fn spec(
    state: &Arc<Deployment>,
    id: Uuid,
    query: &HashMap<String, String>,
) -> Result<PtySpec, Refusal> {
    let number = |name: &str| query.get(name).and_then(|text| text.parse().ok()).filter(|size| *size > 0);
    let command = query.get("command").filter(|command| !command.is_empty());
    let (mut spec, agent) = state.read(|memory| {
        let (workspace, agent) = find(memory, id).map_err(|_| absent())?;
        if agent.connection != Connection::Connected {
            return Err(bad_gateway());
        }
        let dirs = WorkspaceDirs::new(&state.layout, workspace);
        let spec = PtySpec {
            prefix: Vec::new(),
            lead: SessionLeader::Started,
            command: command.map_or(PtyCommand::LoginShell, |script| PtyCommand::Script(script.clone())),
            environment: environment::of_terminal(&state.info, workspace, &dirs.fleet),
            width: number("width").unwrap_or(WIDTH),
            height: number("height").unwrap_or(HEIGHT),
        };
        Ok((spec, agent.clone()))
    })?;
    let terminals = if command.is_some() { Terminals::Own } else { Terminals::Shared };
    EnclosedPrefix { prefix: spec.prefix, lead: spec.lead } =
        enclosed_prefix(state, agent, terminals).await?;
    Ok(spec)
}

/// Resolves paths of the agent's caller, which may be slow.
async fn enclosed_prefix(
    state: &Arc<Deployment>,
    agent: Agent,
    terminals: Terminals,
) -> Result<EnclosedPrefix, Refusal> {
    let (state, directory) = (Arc::clone(state), agent.directory.clone());
    let look = move || {
        let Agent { visible, read_only, directory, process, .. } = &agent;
        let access = DirectoryAccess { visible, read_only, directory: Some(directory) };
        Ok(state.enclosure.inside(process.as_ref(), access, terminals))
    };
    with_deadline(&directory, look).await.map_err(|error| {
        tracing::warn!(error = error.chain(), "cannot open a terminal");
        bad_gateway()
    })
}

fn bad_gateway() -> Refusal {
    Refusal::page(StatusCode::BAD_GATEWAY, "502 - Bad Gateway")
}
