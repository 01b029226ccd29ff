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
    Sse::new(news(api).map(|news| Ok(news.event()))).keep_alive(KeepAlive::default())
}

#[derive(Debug, PartialEq)]
struct News {
    name: &'static str,
    data: Value,
}

/// What a listener has received so far.
#[derive(Debug, Default)]
struct Told {
    messages: BTreeMap<usize, Message>,
    status: Option<Status>,
    /// Failures are sent as they happen; earlier ones are only part of the conversation.
    n_failed: Option<usize>,
}

fn news(api: Api) -> impl Stream<Item = News> {
    let batches = stream::unfold((api, Told::default()), async |(mut api, mut told)| {
        if told.status.is_some() {
            // The worker drops its end of the channel when it ends, which also ends this stream.
            tokio::time::sleep(PAUSE).await;
            api.state.changed().await.ok()?;
        }
        let batch = told.catch_up(&api.state.borrow_and_update(), api.engine.word().word());
        Some((stream::iter(batch), (api, told)))
    });
    batches.flatten()
}

impl News {
    fn event(&self) -> Event {
        Event::default().event(self.name).data(self.data.to_string())
    }
}

impl Told {
    fn catch_up(&mut self, state: &State, engine: &str) -> Vec<News> {
        let mut news = Vec::new();
        for message in state.messages() {
            if self.messages.get(&message.id) != Some(&message) {
                news.push(News { name: "message_update", data: update(&message) });
                self.messages.insert(message.id, message);
            }
        }
        let status = Status::of(state);
        if self.status.replace(status) != Some(status) {
            news.push(News {
                name: "status_change",
                data: json!({ "status": status, "agent_type": engine }),
            });
        }
        news.extend(self.failures(state));
        news
    }

    fn failures(&mut self, state: &State) -> Vec<News> {
        let failed = state.conversation.turns.iter().filter_map(|turn| match &turn.progress {
            Progress::Ended { at, outcome: Outcome::Failed { text, .. }, .. } => Some((at, text)),
            Progress::Ended { .. } | Progress::Queued | Progress::Working { .. } => None,
        });
        let failed: Vec<_> = failed.collect();
        let n_known = self.n_failed.replace(failed.len()).unwrap_or(failed.len());
        let tell = |(at, text)| News {
            name: "agent_error",
            data: json!({ "level": "error", "message": text, "time": at }),
        };
        failed.into_iter().skip(n_known).map(tell).collect()
    }
}

fn update(message: &Message) -> Value {
    json!({ "id": message.id, "role": message.role, "message": message.content, "time": message.time })
}
