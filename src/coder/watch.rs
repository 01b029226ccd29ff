//! Following one workspace as it changes.

use futures_util::StreamExt;
use sse_stream::Sse;
use uuid::Uuid;

use super::events::{EventStream, decode};
use super::operation::WORKSPACE_WATCH;
use super::request::Request;
use super::wire::Workspace;
use super::{Client, CoderError};

/// What a watched workspace says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceEvent {
    /// The connection is alive and nothing has changed.
    Ping,
    /// The whole workspace after a change.
    Workspace(Box<Workspace>),
}

impl Client {
    /// Every change of the workspace, app statuses included, within milliseconds.
    pub async fn workspace_watch(&self, workspace: Uuid) -> Result<EventStream<WorkspaceEvent>, CoderError> {
        let events = self.events(Request::new(&WORKSPACE_WATCH, &[&workspace])).await?;
        Ok(Box::pin(events.map(|event| event.and_then(|event| read(&event)))))
    }
}

fn read(event: &Sse) -> Result<WorkspaceEvent, CoderError> {
    if event.event.as_deref() == Some("ping") {
        return Ok(WorkspaceEvent::Ping);
    }
    Ok(WorkspaceEvent::Workspace(Box::new(decode(WORKSPACE_WATCH.name, event)?)))
}
