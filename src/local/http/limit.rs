//! The rate limit: so many requests a minute for each caller and path, told in every answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use chrono::Utc;
use http::StatusCode;

use super::answer::{Refusal, set_header};
use super::auth;
use crate::local::Deployment;
use crate::local::site::VERSION;

const LIMIT: u32 = 512;
const WINDOW_SECONDS: i64 = 60;
const BYPASS: &str = "x-coder-bypass-ratelimit";

/// Counts of the current minute.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    started_at: i64,
    counts: HashMap<(Caller, String), u32>,
}

/// Agents have no user: all of one machine share a count, as on a real server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Caller {
    User,
    Address,
}

/// What a request may learn of its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    remaining: u32,
    is_over: bool,
    resets_at: i64,
}

pub(crate) async fn count(State(state): State<Arc<Deployment>>, request: Request, next: Next) -> Response {
    let is_user = auth::is_user(&state, request.headers(), request.uri());
    let is_bypassed = is_user && request.headers().get(BYPASS).is_some_and(|value| value == "true");
    let caller = if is_user { Caller::User } else { Caller::Address };
    let count = if is_bypassed {
        Count { remaining: LIMIT - 1, is_over: false, resets_at: window_of(now()) + WINDOW_SECONDS }
    } else {
        state.limit.take(caller, request.uri().path(), now())
    };
    let mut response = if count.is_over { too_many() } else { next.run(request).await };
    set_header(&mut response, "x-coder-build-version", VERSION);
    set_header(&mut response, "x-ratelimit-limit", &LIMIT.to_string());
    set_header(&mut response, "x-ratelimit-remaining", &count.remaining.to_string());
    set_header(&mut response, "x-ratelimit-reset", &count.resets_at.to_string());
    response
}

impl RateLimit {
    fn take(&self, caller: Caller, path: &str, now: i64) -> Count {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.started_at != window_of(now) {
            *window = Window { started_at: window_of(now), counts: HashMap::new() };
        }
        let count = window.counts.entry((caller, path.to_owned())).or_default();
        *count = count.saturating_add(1);
        Count {
            remaining: LIMIT.saturating_sub(*count),
            is_over: *count > LIMIT,
            resets_at: window_of(now) + WINDOW_SECONDS,
        }
    }
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

    #[test]
    fn the_limit_counts_by_caller_and_path_and_opens_again_with_the_next_minute() {
        let limit = RateLimit::default();
        for _ in 0..LIMIT {
            assert!(!limit.take(Caller::User, "/a", 60).is_over);
        }
        assert_eq!(
            limit.take(Caller::User, "/a", 119),
            Count { remaining: 0, is_over: true, resets_at: 120 }
        );
        assert!(!limit.take(Caller::User, "/b", 119).is_over);
        assert!(!limit.take(Caller::Address, "/a", 119).is_over);
        assert_eq!(
            limit.take(Caller::User, "/a", 120),
            Count { remaining: 511, is_over: false, resets_at: 180 }
        );
    }
}
