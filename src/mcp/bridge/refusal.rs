//! The bridge's own error responses; each names one next action.

use serde_json::{Value, json};
use url::Url;

use crate::view::json::JsonError;

/// Why the server did not respond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    NotJson,
    NotAMessage,
    /// The same call may succeed later.
    Away,
    /// The call cannot succeed unless something is corrected.
    Refused,
}

impl Cause {
    /// JSON-RPC's own codes, and the first one for implementations.
    fn code(self) -> i64 {
        match self {
            Self::NotJson => -32700,
            Self::NotAMessage => -32600,
            Self::Away | Self::Refused => -32000,
        }
    }
}

/// A malformed request still gets a response under its id, so that its caller does not wait.
pub(super) fn unreadable(line: &[u8], error: &JsonError) -> Value {
    let (cause, next) = match error {
        JsonError::Syntax(_) => (Cause::NotJson, "Send one JSON-RPC message per line."),
        JsonError::TooDeep => (Cause::NotAMessage, "Send a message with less nesting."),
        JsonError::Duplicate(_) => (Cause::NotAMessage, "Send each key once."),
    };
    let id = match error {
        JsonError::Duplicate(key) if key != "id" => id_of(line),
        JsonError::Syntax(_) | JsonError::TooDeep | JsonError::Duplicate(_) => Value::Null,
    };
    of(&id, cause, &error.of("the line"), next)
}

fn id_of(line: &[u8]) -> Value {
    let message: Value = serde_json::from_slice(line).unwrap_or_default();
    message.get("id").cloned().unwrap_or_default()
}

pub(super) fn not_a_message() -> Value {
    let message = "the line is not a single message";
    of(&Value::Null, Cause::NotAMessage, message, "Send one JSON-RPC message per line.")
}

pub(super) fn too_long() -> Value {
    of(&Value::Null, Cause::NotAMessage, "the line is longer than 1 MiB", "Send a shorter message.")
}

/// The request never reached the server.
pub(super) fn unreachable(id: &Value, url: &Url, remedy: &str) -> Value {
    let message = format!("the fleet server at {url} cannot be reached");
    of(id, Cause::Away, &message, remedy)
}

/// The call may or may not have taken effect.
pub(super) fn lost(id: &Value) -> Value {
    let next = "Call list_agents to see whether the call took effect, then repeat it with the same \
        request_key.";
    of(id, Cause::Away, "the connection to the fleet server was lost before its response arrived", next)
}

pub(super) fn unauthenticated(id: &Value) -> Value {
    let next = "Create a token with 'fleet-mcp token create' and set FLEET_TOKEN to it.";
    of(id, Cause::Refused, "the fleet server does not accept this token", next)
}

/// An HTTP response without a message.
pub(super) fn unexpected(id: &Value, status: u16, body: &str) -> Value {
    let message = format!("the fleet server answered with status {status}: {body}");
    of(id, Cause::Refused, &message, "Run 'fleet-mcp doctor' and follow what it says.")
}

/// Models often see only the message, so it ends with the next action.
fn of(id: &Value, cause: Cause, message: &str, next_action: &str) -> Value {
    let data = json!({ "next_action": next_action, "retryable": cause == Cause::Away });
    let message = format!("{message}. {next_action}");
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": cause.code(), "message": message, "data": data } })
}
