//! Reads what a request with a dead token asked for, only for its row in the audit trail.

use std::time::Duration;

use axum::RequestExt;
use axum::body::{Body, to_bytes};
use axum::extract::{MatchedPath, RawPathParams, Request};
use axum::http::Method;
use serde_json::Value;
use tokio::time::timeout;

use super::observe::method_word;
use super::openapi::tool_of;
use crate::app::audit::repeatable;
use crate::app::caller::Surface;
use crate::app::tokens::AttemptedCall;
use crate::view::request::MAX_BODY_BYTES;

const MCP: &str = "/mcp";
/// A refused request must not occupy the server while its body arrives.
const READ_LIMIT: Duration = Duration::from_secs(5);
/// No method or tool has a longer name.
const LONGEST_WORD: usize = 40;

pub(super) async fn attempted_call(request: Request) -> AttemptedCall {
    if is_mcp(request.uri().path()) { mcp_attempt(request).await } else { rest_attempt(request).await }
}

pub(super) fn is_mcp(path: &str) -> bool {
    path == MCP || path.starts_with("/mcp/")
}

async fn rest_attempt(mut request: Request) -> AttemptedCall {
    let action = route_of(&request);
    let params = request.extract_parts::<RawPathParams>().await.ok();
    let named = params.as_ref().and_then(|params| params.iter().next());
    AttemptedCall { surface: Surface::Rest, action, target: named.and_then(|(_, value)| repeatable(value)) }
}

/// The tool of the route; otherwise the route's template.
fn route_of(request: &Request) -> String {
    let template = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str);
    let plain = || format!("{} {template}", method_word(request.method()));
    tool_of(template, request.method()).map_or_else(plain, str::to_owned)
}

async fn mcp_attempt(request: Request) -> AttemptedCall {
    let method = method_word(request.method());
    let message = if request.method() == Method::POST { message_of(request.into_body()).await } else { None };
    let asked = message.as_ref().and_then(|message| match message["method"].as_str() {
        Some("tools/call") => message["params"]["name"].as_str(),
        other => other,
    });
    let action = asked.filter(|word| is_word(word)).map_or_else(|| format!("{method} {MCP}"), str::to_owned);
    let arguments = message.as_ref().map(|message| &message["params"]["arguments"]);
    let named = arguments.and_then(|given| given["agent_name"].as_str().or_else(|| given["name"].as_str()));
    AttemptedCall { surface: Surface::Mcp, action, target: named.and_then(repeatable) }
}

async fn message_of(body: Body) -> Option<Value> {
    let bytes = timeout(READ_LIMIT, to_bytes(body, MAX_BODY_BYTES)).await.ok()?.ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'/' | b'_');
    !text.is_empty() && text.len() <= LONGEST_WORD && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use axum::http;
    use serde_json::json;

    use super::*;

    async fn posted(message: &Value) -> (String, Option<String>) {
        let request = http::Request::post("/mcp").body(Body::from(message.to_string())).unwrap();
        let attempt = attempted_call(request).await;
        assert_eq!(attempt.surface, Surface::Mcp);
        (attempt.action, attempt.target)
    }

    fn call(name: &str, arguments: &Value) -> Value {
        json!({ "method": "tools/call", "params": { "name": name, "arguments": arguments } })
    }

    #[tokio::test]
    async fn a_message_tells_its_tool_and_whom_it_is_about() {
        let stop = posted(&call("stop_agent", &json!({ "agent_name": "otter" }))).await;
        assert_eq!(stop, ("stop_agent".to_owned(), Some("otter".to_owned())));
        let create = posted(&call("create_agent", &json!({ "name": "heron" }))).await;
        assert_eq!(create, ("create_agent".to_owned(), Some("heron".to_owned())));
        assert_eq!(posted(&json!({ "method": "tools/list" })).await, ("tools/list".to_owned(), None));
    }

    #[tokio::test]
    async fn what_could_be_a_token_is_not_repeated() {
        let token = format!("fleet_{}", "0123456789abcdef".repeat(4));
        let hidden = ("POST /mcp".to_owned(), None);
        assert_eq!(posted(&call(&token, &json!({ "agent_name": token }))).await, hidden);
        assert_eq!(posted(&json!({ "method": token })).await, hidden);
        assert_eq!(posted(&json!(["no message", 7])).await, hidden);
    }
}
