//! `GET /events`: first the whole conversation, then its changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State as Shared;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use super::{Api, Status};
use crate::runner::conversation::Progress;
use crate::runner::entry::Outcome;
use crate::runner::state::{Message, State};

/// A growing answer is sent whole each time; more often than this is useless.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn follow(Shared(api): Shared<Api>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(updates(api).map(|updates| Ok(updates.event()))).keep_alive(KeepAlive::default())
}

#[derive(Debug, PartialEq)]
struct Update {
    name: &'static str,
    data: Value,
}

/// What a listener has received so far.
#[derive(Debug, Default)]
struct ListenerState {
    messages: BTreeMap<usize, Message>,
    status: Option<Status>,
    /// Failures are sent as they happen; earlier ones are only part of the conversation.
    n_failed: Option<usize>,
}

fn updates(api: Api) -> impl Stream<Item = Update> {
    let batches = stream::unfold((api, ListenerState::default()), async |(mut api, mut state_sent)| {
        if state_sent.status.is_some() {
            // The worker drops its end of the channel when it ends, which also ends this stream.
            tokio::time::sleep(PAUSE).await;
            api.state.changed().await.ok()?;
        }
        let batch = state_sent.catch_up(&api.state.borrow_and_update(), api.engine.word().word());
        Some((stream::iter(batch), (api, state_sent)))
    });
    batches.flatten()
}

impl Update {
    fn event(&self) -> Event {
        Event::default().event(self.name).data(self.data.to_string())
    }
}

impl ListenerState {
    fn catch_up(&mut self, state: &State, engine: &str) -> Vec<Update> {
        let mut updates = Vec::new();
        for message in state.messages() {
            if self.messages.get(&message.id) != Some(&message) {
                updates.push(Update { name: "message_update", data: update(&message) });
                self.messages.insert(message.id, message);
            }
        }
        let status = Status::of(state);
        if self.status.replace(status) != Some(status) {
            updates.push(Update {
                name: "status_change",
                data: json!({ "status": status, "agent_type": engine }),
            });
        }
        updates.extend(self.failures(state));
        updates
    }

    fn failures(&mut self, state: &State) -> Vec<Update> {
        let failed = state.conversation.turns.iter().filter_map(|turn| match &turn.progress {
            Progress::Ended { at, outcome: Outcome::Failed { text, .. }, .. } => Some((at, text)),
            Progress::Ended { .. } | Progress::Queued | Progress::Working { .. } => None,
        });
        let failed: Vec<_> = failed.collect();
        let n_known = self.n_failed.replace(failed.len()).unwrap_or(failed.len());
        let update_of = |(at, text)| Update {
            name: "agent_error",
            data: json!({ "level": "error", "message": text, "time": at }),
        };
        failed.into_iter().skip(n_known).map(update_of).collect()
    }
}

fn update(message: &Message) -> Value {
    json!({ "id": message.id, "role": message.role, "message": message.content, "time": message.time })
}
