//! AgentAPI over HTTP: status, messages and events, plus the complete state for the fleet.

mod events;
mod fleet_state;
mod message;
mod openapi;
mod origin;
mod problem;

use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::sync::{mpsc, watch};

use super::options::Options;
use super::resolved_engine::ResolvedEngine;
use super::state::State;
use super::worker::Command;
use problem::Problem;

const MAX_BODY: usize = 1024 * 1024;
/// AgentAPI defines `pty` and `acp`; keystrokes work here as in a terminal.
const TRANSPORT: &str = "pty";

/// The state of the handlers.
#[derive(Debug, Clone)]
pub(super) struct Api {
    state: watch::Receiver<State>,
    commands: mpsc::Sender<Command>,
    engine: ResolvedEngine,
    directory: PathBuf,
    generation: u64,
    workspace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Stable,
    Running,
}

impl Api {
    pub(super) fn new(
        options: &Options,
        state: watch::Receiver<State>,
        commands: mpsc::Sender<Command>,
    ) -> Self {
        Self {
            state,
            commands,
            engine: options.engine.clone(),
            directory: options.directory.clone(),
            generation: options.generation,
            workspace: options.workspace.clone(),
        }
    }
}

impl Status {
    fn of(state: &State) -> Self {
        if state.conversation.is_stable() { Self::Stable } else { Self::Running }
    }
}

pub(super) fn router(api: Api) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/messages", get(messages))
        .route("/message", post(message::post))
        .route("/events", get(events::follow))
        .route("/openapi.json", get(openapi::show))
        .route("/fleet/state", get(fleet_state::show))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(origin::check))
        .with_state(api)
}

async fn status(Shared(api): Shared<Api>) -> Json<Value> {
    let status = Status::of(&api.state.borrow());
    Json(json!({ "status": status, "agent_type": api.engine.word().word(), "transport": TRANSPORT }))
}

async fn messages(Shared(api): Shared<Api>) -> Json<Value> {
    let messages = api.state.borrow().messages();
    Json(json!({ "messages": messages }))
}
