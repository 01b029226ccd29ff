//! Streams an agent's metadata as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

use super::agents::find;
use super::answer::{Answer, uuid};
use super::auth::SignedIn;
use crate::local::collect::collect_now;
use crate::local::{Deployment, shape};

pub(super) async fn watch(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
) -> Answer {
    let agent = uuid(&id)?;
    let workspace = state.read(|memory| find(memory, agent).map(|(workspace, _)| workspace.id))?;
    collect_now(&state, workspace).await;
    let changes = state.changes();
    let values = values(Watched { state, workspace, agent, changes, shown: None });
    let events =
        values.map(|value| Ok::<_, Infallible>(Event::default().event("data").data(value.to_string())));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().event(Event::default().event("ping"))).into_response())
}

/// The metadata now, and after each change; ends when the server stops.
fn values(watched: Watched) -> impl Stream<Item = Value> + Send {
    stream::unfold(watched, async |mut watched| {
        let value = watched.next().await?;
        Some((value, watched))
    })
}

struct Watched {
    state: Arc<Deployment>,
    workspace: Uuid,
    agent: Uuid,
    changes: broadcast::Receiver<Uuid>,
    shown: Option<Value>,
}

impl Watched {
    async fn next(&mut self) -> Option<Value> {
        loop {
            let now = self.metadata();
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

    /// Waits for a change of the workspace; a lagging watcher reads again in any case.
    async fn change(&mut self) -> Option<()> {
        loop {
            match self.changes.recv().await {
                Ok(id) if id != self.workspace => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return Some(()),
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn metadata(&self) -> Option<Value> {
        self.state.read(|memory| {
            memory.agent(self.agent)?;
            let items = memory.metadata.get(&self.workspace).into_iter().flatten();
            Some(items.map(|item| shape::metadata(item, &format!("cat {}", item.key))).collect())
        })
    }
}
