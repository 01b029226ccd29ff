//! Changes of agents as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use tokio::sync::watch;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Fleet;
use crate::app::agents::AgentChange;
use crate::app::caller::Caller;
use crate::app::error::Error;
use crate::domain::access::Principal;
use crate::view::agent::ChangedAgent;
use crate::web::WebState;
use crate::web::arguments::Arguments;
use crate::web::problem::Problem;

const LAST_EVENT_ID: &str = "Last-Event-ID";
/// Often enough for proxies that close quiet connections.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) fn routes() -> OpenApiRouter<WebState> {
    OpenApiRouter::default().routes(routes!(events))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct EventsInput {
    /// Id of the last event received: all later changes are sent first. If omitted, the stream starts now.
    after: Option<i64>,
}

/// Streams changes of agents; each event has the agent's newest row.
#[utoipa::path(get, path = "/events", tag = "agents",
    params(
        EventsInput,
        ("Last-Event-ID" = Option<i64>, Header,
            description = "The same as `after`, and takes precedence: sent by clients that reconnect."),
    ),
    responses((status = 200, body = ChangedAgent, content_type = "text/event-stream",
        description = "`event: agent`, `id` the number of the change, `data` the agent.")))]
async fn events(
    State(state): State<WebState>,
    caller: Caller,
    headers: HeaderMap,
    Arguments(input): Arguments<EventsInput>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let after = last_event_id(&headers)?.or(input.after);
    let feed = Feed::open(state.fleet.clone(), caller.principal.clone(), after);
    let end = async move {
        tokio::select! {
            () = state.shutdown.cancelled_owned() => {}
            // The client reconnects and then gets the reason why its token is refused.
            _ = state.fleet.token_lapse(&caller.principal) => {}
        }
    };
    let events = stream::unfold(feed, Feed::next).take_until(Box::pin(end));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Error> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let id = id.to_str().ok().and_then(|id| id.parse().ok());
    id.map(Some)
        .ok_or_else(|| Error::invalid(LAST_EVENT_ID, "Last-Event-ID is not an event id of this server"))
}

/// One client's position in the stream of changes.
///
/// Nothing is queued for a slow client: it reads the newest state when it is ready, and revisions make sure that no
/// change is missed.
struct Feed {
    fleet: Fleet,
    principal: Principal,
    changes: watch::Receiver<i64>,
    /// All changes up to this one are sent or in `ready`.
    seen: i64,
    ready: VecDeque<Event>,
}

impl Feed {
    fn open(fleet: Fleet, principal: Principal, after: Option<i64>) -> Self {
        let changes = fleet.board().changes();
        let newest = *changes.borrow();
        let seen = match after {
            None => newest,
            Some(after) if after <= newest => after,
            // Not one of our revisions, perhaps of another store: such a client has seen nothing.
            Some(_) => 0,
        };
        // An event without data is not delivered, but a client that is disconnected before the first change resumes
        // here.
        let ready = VecDeque::from([Event::default().id(seen.to_string())]);
        Self { fleet, principal, changes, seen, ready }
    }

    /// The next event; none if the client must reconnect with a valid token.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            self.changes.mark_unchanged();
            match self.fleet.changes_after(self.seen).await {
                Ok(changed) if changed.is_empty() => self.changes.changed().await.ok()?,
                Ok(changed) if self.fleet.token_is_valid(&self.principal).await => self.take(&changed),
                Ok(_) => return None,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "an event stream was closed early"
                    );
                    return None;
                }
            }
        }
    }

    fn take(&mut self, changed: &[AgentChange]) {
        for change in changed {
            let event = Event::default().event("agent").id(change.revision.to_string());
            // A row consists of text and numbers, so serializing is infallible.
            self.ready.extend(event.json_data(ChangedAgent::from(change)).ok());
            self.seen = self.seen.max(change.revision);
        }
    }
}
