//! Finds the workspace agent of a request.

use http::StatusCode;
use uuid::Uuid;

use super::answer::Refusal;
use crate::local::memory::Memory;
use crate::local::record::{Agent, Workspace};

pub(super) fn find(memory: &Memory, id: Uuid) -> Result<(&Workspace, &Agent), Refusal> {
    let message = "Agent doesn't exist with that id, or you do not have access to it.";
    memory.agent(id).ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, message))
}
