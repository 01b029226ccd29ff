//! Awkward answers on demand: errors before or after the effect, and unexpected bodies.

use super::answers::{Body, Reply, name_taken};
use super::routes::{Call, answer as honest_answer};
use super::state::State;
use chrono::Utc;
use serde_json::{Value, json};

const DUPLICATE_KEY: &str = "insert workspace: pq: duplicate key value violates unique constraint \
                             \"workspaces_owner_id_lower_idx\"";

/// What goes wrong with an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// 500, and nothing happened.
    ErrorBefore,
    /// 500, though what was asked for happened.
    ErrorAfter,
    /// 409: an identical create won, so the workspace is there.
    CreateConflict,
    /// 500 with the database's complaint about two creates at once; the workspace is there.
    CreateRace,
    /// 429, not carried out; `reset_after` is when it opens again, as `X-Ratelimit-Reset` tells.
    RateLimited { retry_after: u32, reset_after: i64 },
    /// 403, as for a user who may not do this.
    Forbidden,
    /// 502 with a page of HTML, and nothing happened.
    BadGateway,
    /// The right status with no body at all.
    EmptyBody,
    /// Strings where numbers were and the other way round.
    WrongTypes,
    /// One row of a list cannot be decoded; the others can.
    BadRow,
    /// Workspaces have no newest build.
    NoBuild,
    /// Every answer that holds the workspace of this name is larger than a client reads.
    Huge { name: &'static str },
}

/// Answers a call, falsely if a rule says so.
pub(super) fn answer(state: &mut State, call: &Call) -> Reply {
    let Some(fault) = state.faults.pick(&call.method, &call.path) else {
        return honest_answer(state, call);
    };
    match fault {
        Fault::ErrorBefore => internal_error("the stub was told to fail before the effect"),
        Fault::RateLimited { retry_after, reset_after } => rate_limited(retry_after, reset_after),
        Fault::Forbidden => Reply::error(403, "Forbidden."),
        Fault::BadGateway => Reply::html(502, "502 Bad Gateway"),
        Fault::ErrorAfter => {
            instead(state, call, internal_error("the stub was told to fail after the effect"))
        }
        Fault::CreateConflict => {
            let conflict = name_taken(&requested_name(call));
            instead(state, call, conflict)
        }
        Fault::CreateRace => instead(state, call, internal_error(DUPLICATE_KEY)),
        Fault::EmptyBody => Reply { body: Body::Text(String::new()), ..honest_answer(state, call) },
        Fault::WrongTypes => changed(honest_answer(state, call), swap_types),
        Fault::BadRow => changed(honest_answer(state, call), spoil_first_row),
        Fault::NoBuild => changed(honest_answer(state, call), take_builds_away),
        Fault::Huge { name } => inflated(honest_answer(state, call), name),
    }
}

/// Lets the effect happen and answers something else.
fn instead(state: &mut State, call: &Call, reply: Reply) -> Reply {
    honest_answer(state, call);
    reply
}

fn requested_name(call: &Call) -> String {
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    body["name"].as_str().unwrap_or_default().to_owned()
}

fn internal_error(detail: &str) -> Reply {
    Reply::error(500, "Internal server error").detail(detail)
}

fn rate_limited(retry_after: u32, reset_after: i64) -> Reply {
    Reply::error(429, "You've been rate limited for sending more than 512 requests in 1m0s.")
        .header("Retry-After", &retry_after.to_string())
        .header("X-Ratelimit-Remaining", "0")
        .header("X-Ratelimit-Reset", &(Utc::now().timestamp() + reset_after).to_string())
}

fn changed(mut reply: Reply, change: fn(&mut Value)) -> Reply {
    if let Body::Json(body) = &mut reply.body {
        change(body);
    }
    reply
}

fn inflated(reply: Reply, name: &str) -> Reply {
    let holds = |row: &Value| row["name"] == name;
    let is_hit = match &reply.body {
        Body::Json(body) => {
            holds(body) || body["workspaces"].as_array().is_some_and(|rows| rows.iter().any(holds))
        }
        Body::Text(_) => false,
    };
    let huge = || Body::Text(" ".repeat((64 << 20) + 1));
    if is_hit { Reply { body: huge(), ..reply } } else { reply }
}

fn swap_types(value: &mut Value) {
    match value {
        Value::String(_) => *value = json!(7),
        Value::Number(_) => *value = json!("seven"),
        Value::Array(rows) => rows.iter_mut().for_each(swap_types),
        Value::Object(fields) => fields.values_mut().for_each(swap_types),
        Value::Null | Value::Bool(_) => {}
    }
}

fn take_builds_away(body: &mut Value) {
    match body {
        Value::Array(rows) => rows.iter_mut().for_each(take_builds_away),
        Value::Object(fields) => {
            if let Some(build) = fields.get_mut("latest_build") {
                *build = Value::Null;
            }
            fields.values_mut().for_each(take_builds_away);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn spoil_first_row(body: &mut Value) {
    if let Some(row) = body.pointer_mut("/workspaces/0") {
        row["latest_build"] = json!("not an object");
    }
}
