//! Streams changes of a workspace or of an agent's metadata as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use super::agents::find;
use super::answer::{Answer, Refusal, uuid};
use super::auth::SignedIn;
use crate::local::collect::collect_now;
use crate::local::{Deployment, shape};

/// The watched object; each belongs to one workspace.
#[derive(Debug, Clone, Copy)]
enum Subject {
    Workspace(Uuid),
    Metadata { workspace: Uuid, agent: Uuid },
}

pub(super) async fn workspace_events(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
) -> Answer {
    let subject = workspace(&state, &id)?;
    let ping = stream::iter([Ok(Event::default().event("ping").data("null"))]);
    Ok(events(ping.chain(data_events(state, subject))))
}

pub(super) async fn metadata_events(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
) -> Answer {
    let subject = metadata(&state, &id)?;
    collect_now(&state, subject.workspace()).await;
    Ok(events(data_events(state, subject)))
}

fn workspace(state: &Deployment, id: &str) -> Result<Subject, Refusal> {
    let id = uuid(id)?;
    let is_known = state.read(|memory| memory.workspaces.contains_key(&id));
    if is_known { Ok(Subject::Workspace(id)) } else { Err(Refusal::not_found()) }
}

fn metadata(state: &Deployment, id: &str) -> Result<Subject, Refusal> {
    let agent = uuid(id)?;
    let workspace = state.read(|memory| find(memory, agent).map(|(workspace, _)| workspace.id))?;
    Ok(Subject::Metadata { workspace, agent })
}

fn events(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(stream).keep_alive(KeepAlive::new().event(Event::default().event("ping"))).into_response()
}

fn data_events(
    state: Arc<Deployment>,
    subject: Subject,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    values(state, subject).map(|value| Ok(Event::default().event("data").data(value.to_string())))
}

/// The subject now, and after each change; ends when the server stops.
fn values(state: Arc<Deployment>, subject: Subject) -> impl Stream<Item = Value> + Send {
    let changes = state.changes();
    let first = Watched { state, subject, changes, shown: None };
    stream::unfold(first, async |mut watched| {
        let value = watched.next().await?;
        Some((value, watched))
    })
}

struct Watched {
    state: Arc<Deployment>,
    subject: Subject,
    changes: broadcast::Receiver<Uuid>,
    shown: Option<Value>,
}

impl Watched {
    async fn next(&mut self) -> Option<Value> {
        loop {
            let now = self.subject.look(&self.state);
            if now.is_some() && self.shown != now {
                self.shown.clone_from(&now);
                return now;
            }
            let stop = self.state.stop.clone();
            tokio::select! {
                () = stop.cancelled() => return None,
                change = self.change() => change?,
            }
        }
    }

    /// Waits for a change of the subject; a lagging watcher reads again in any case.
    async fn change(&mut self) -> Option<()> {
        loop {
            match self.changes.recv().await {
                Ok(id) if id != self.subject.workspace() => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return Some(()),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl Subject {
    fn workspace(self) -> Uuid {
        match self {
            Self::Workspace(workspace) | Self::Metadata { workspace, .. } => workspace,
        }
    }

    fn look(self, state: &Deployment) -> Option<Value> {
        state.read(|memory| match self {
            Self::Workspace(id) => Some(shape::workspace(state, memory, memory.workspaces.get(&id)?)),
            Self::Metadata { workspace, agent } => {
                memory.agent(agent)?;
                let items = memory.metadata.get(&workspace).into_iter().flatten();
                Some(items.map(|item| shape::metadata(item, &format!("cat {}", item.key))).collect())
            }
        })
    }
}
