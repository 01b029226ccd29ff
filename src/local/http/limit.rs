//! The rate limit: requests per minute for each caller and path, shown in every response.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use http::StatusCode;
use uuid::Uuid;

use super::answer::{Refusal, set_header};
use super::auth;
use crate::local::Deployment;
use crate::local::deployment_info::VERSION;
use crate::serve::{GuardedBody, MOST_OF_AGENT, OpenRequest, OpenRequests};

const LIMIT: u32 = 512;
const WINDOW_SECONDS: i64 = 60;
const BYPASS: &str = "x-coder-bypass-ratelimit";
/// In bytes. The user's terminals are opened with a command in the URL; no other request needs as much.
const LONGEST_TARGET: usize = 4_096;
/// Only the user's requests have that many paths; further paths share one count.
const MOST_COUNTS: usize = 10_000;
const OTHER_PATHS: &str = "";
/// Cheap, and requested without a token before anything else: a flood must not keep a client from it.
const UNCOUNTED: &str = "/api/v2/buildinfo";

/// Counts of the current minute.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    started_at: i64,
    counts: HashMap<Key, u32>,
}

/// What is counted together. The user's requests are counted per path, as on a real server. Those of others are
/// counted per route: they could invent any number of paths.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    caller: Caller,
    path: String,
}

/// A real server counts agents as unauthenticated too; one agent could then use up the limit of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Caller {
    User,
    Agent(Uuid),
    Unauthenticated,
}

/// The count as response headers show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    remaining: u32,
    is_over: bool,
    resets_at: i64,
}

pub(crate) async fn count(State(state): State<Arc<Deployment>>, request: Request, next: Next) -> Response {
    let caller = caller_of(&state, &request);
    if caller != Caller::User && target_length(&request) > LONGEST_TARGET {
        return Refusal::new(StatusCode::URI_TOO_LONG, "Request URI is too long.").into_response();
    }
    let count = if is_uncounted(caller, &request) {
        Count { remaining: LIMIT - 1, is_over: false, resets_at: window_of(now()) + WINDOW_SECONDS }
    } else {
        state.limit.take(Key::of(caller, &request), now())
    };
    let mut response = match begin(&state.open_requests, caller) {
        _ if count.is_over => too_many(),
        Ok(open) => next.run(request).await.map(|body| Body::new(GuardedBody::new(body, open))),
        Err(refusal) => refusal.into_response(),
    };
    set_header(&mut response, "x-coder-build-version", VERSION);
    set_header(&mut response, "x-ratelimit-limit", &LIMIT.to_string());
    set_header(&mut response, "x-ratelimit-remaining", &count.remaining.to_string());
    set_header(&mut response, "x-ratelimit-reset", &count.resets_at.to_string());
    response
}

fn caller_of(state: &Deployment, request: &Request) -> Caller {
    if auth::is_user(state, request.headers(), request.uri()) {
        return Caller::User;
    }
    auth::agent_of(state, request.headers())
        .map_or(Caller::Unauthenticated, |agent| Caller::Agent(agent.agent))
}

fn is_uncounted(caller: Caller, request: &Request) -> bool {
    let is_bypassed = || request.headers().get(BYPASS).is_some_and(|value| value == "true");
    (caller == Caller::User && is_bypassed()) || route_of(request) == Some(UNCOUNTED)
}

fn target_length(request: &Request) -> usize {
    let uri = request.uri();
    uri.path().len() + uri.query().map_or(0, str::len)
}

fn route_of(request: &Request) -> Option<&str> {
    request.extensions().get::<MatchedPath>().map(MatchedPath::as_str)
}

impl Key {
    fn of(caller: Caller, request: &Request) -> Self {
        let path = match (caller, route_of(request)) {
            (_, None) => OTHER_PATHS,
            (Caller::User, Some(_)) => request.uri().path(),
            (Caller::Agent(_) | Caller::Unauthenticated, Some(route)) => route,
        };
        Self { caller, path: path.to_owned() }
    }
}

impl RateLimit {
    fn take(&self, key: Key, now: i64) -> Count {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.started_at != window_of(now) {
            *window = Window { started_at: window_of(now), counts: HashMap::new() };
        }
        let is_full = window.counts.len() >= MOST_COUNTS && !window.counts.contains_key(&key);
        let key = if is_full { Key { path: OTHER_PATHS.to_owned(), ..key } } else { key };
        let count = window.counts.entry(key).or_default();
        *count = count.saturating_add(1);
        Count {
            remaining: LIMIT.saturating_sub(*count),
            is_over: *count > LIMIT,
            resets_at: window_of(now) + WINDOW_SECONDS,
        }
    }
}

/// An agent must not lock out the user and other agents by holding all connections.
fn begin(all: &OpenRequests, caller: Caller) -> Result<Option<OpenRequest>, Refusal> {
    let Caller::Agent(agent) = caller else { return Ok(None) };
    let message = "This agent has too many requests open at once.";
    let refused = || Refusal::new(StatusCode::TOO_MANY_REQUESTS, message);
    all.begin(agent.to_string(), MOST_OF_AGENT).map(Some).ok_or_else(refused)
}

fn too_many() -> Response {
    let message = "You've been rate limited for sending more than 512 requests in 1m0s.";
    let mut response = Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).into_response();
    set_header(&mut response, "retry-after", "60");
    response
}

fn now() -> i64 {
    Utc::now().timestamp()
}

fn window_of(second: i64) -> i64 {
    second - second.rem_euclid(WINDOW_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(limit: &RateLimit, caller: Caller, path: &str, now: i64) -> Count {
        limit.take(Key { caller, path: path.to_owned() }, now)
    }

    #[test]
    fn the_limit_counts_by_caller_and_path_and_opens_again_with_the_next_minute() {
        let limit = RateLimit::default();
        for _ in 0..LIMIT {
            assert!(!take(&limit, Caller::User, "/a", 60).is_over);
        }
        assert_eq!(
            take(&limit, Caller::User, "/a", 119),
            Count { remaining: 0, is_over: true, resets_at: 120 }
        );
        assert!(!take(&limit, Caller::User, "/b", 119).is_over);
        assert!(!take(&limit, Caller::Unauthenticated, "/a", 119).is_over);
        assert!(!take(&limit, Caller::Agent(Uuid::nil()), "/a", 119).is_over);
        assert_eq!(
            take(&limit, Caller::User, "/a", 120),
            Count { remaining: 511, is_over: false, resets_at: 180 }
        );
    }

    #[test]
    fn counts_have_a_bound_and_go_with_their_minute() {
        let limit = RateLimit::default();
        for number in 0..2 * MOST_COUNTS {
            take(&limit, Caller::User, &format!("/{number}"), 60);
        }
        let n_counts = || limit.window.lock().unwrap().counts.len();
        assert_eq!(n_counts(), MOST_COUNTS + 1);
        assert!(take(&limit, Caller::User, "/beyond", 60).is_over);
        assert!(!take(&limit, Caller::User, "/0", 60).is_over);
        take(&limit, Caller::User, "/beyond", 120);
        assert_eq!(n_counts(), 1);
    }
}
