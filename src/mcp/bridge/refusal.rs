//! The bridge's own answers, when the server could give none: each names one thing to do next.

use serde_json::{Value, json};
use url::Url;

/// JSON-RPC's codes, and the first one left to implementations.
const NOT_JSON: i64 = -32700;
const NOT_A_MESSAGE: i64 = -32600;
const NO_ANSWER: i64 = -32000;

pub(super) fn not_json(error: &serde_json::Error) -> Value {
    let message = format!("the line is not JSON: {error}");
    of(&Value::Null, NOT_JSON, &message, "Send one JSON-RPC message a line.")
}

pub(super) fn not_a_message() -> Value {
    of(&Value::Null, NOT_A_MESSAGE, "the line is not a single message", "Send one JSON-RPC message a line.")
}

pub(super) fn too_long() -> Value {
    of(&Value::Null, NOT_A_MESSAGE, "the line is longer than 1 MiB", "Send a shorter message.")
}

/// Nothing reached the server.
pub(super) fn unreachable(id: &Value, url: &Url) -> Value {
    let message = format!("the fleet server at {url} cannot be reached");
    of(id, NO_ANSWER, &message, "Start it with 'fleet-mcp up', then call again.")
}

/// The server may have done it or not.
pub(super) fn lost(id: &Value) -> Value {
    let next = "Call list_agents to see what was done, then repeat the call with the same request_key.";
    of(id, NO_ANSWER, "the connection to the fleet server was lost before its answer came", next)
}

pub(super) fn unauthenticated(id: &Value) -> Value {
    let next = "Make a token with 'fleet-mcp token create' and set FLEET_TOKEN to it.";
    of(id, NO_ANSWER, "the fleet server does not accept this token", next)
}

/// An HTTP answer that holds no message.
pub(super) fn unexpected(id: &Value, status: u16, body: &str) -> Value {
    let message = format!("the fleet server answered with status {status}: {body}");
    of(id, NO_ANSWER, &message, "Run 'fleet-mcp doctor' and follow what it says.")
}

/// Models often see nothing but the message, so it ends with the next action.
fn of(id: &Value, code: i64, message: &str, next_action: &str) -> Value {
    let data = json!({ "next_action": next_action, "retryable": code == NO_ANSWER });
    let error = json!({ "code": code, "message": format!("{message}. {next_action}"), "data": data });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}
