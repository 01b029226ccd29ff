//! The endpoint that shows one workspace agent, and how others find one.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Path, State};
use http::StatusCode;
use uuid::Uuid;

use super::answer::{Answer, Refusal, ok, uuid};
use super::auth::SignedIn;
use crate::local::memory::Memory;
use crate::local::record::{Agent, Workspace};
use crate::local::{Deployment, build, shape};

pub(super) async fn show(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
) -> Answer {
    let id = uuid(&id)?;
    state.read(|memory| {
        let (workspace, agent) = find(memory, id)?;
        ok(&shape::agent(workspace, agent))
    })
}

pub(super) fn find(memory: &Memory, id: Uuid) -> Result<(&Workspace, &Agent), Refusal> {
    let message = "Agent doesn't exist with that id, or you do not have access to it.";
    memory.agent(id).ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, message))
}

/// Where the agent's output is kept.
pub(super) fn log_file(state: &Deployment, workspace: &Workspace) -> PathBuf {
    build::Place::new(&state.layout, workspace).log()
}
