//! Parses MCP messages before the protocol's library, so that both surfaces refuse the same bodies with the same
//! errors.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::attempt::is_mcp;
use super::body_limit::too_large;
use super::problem::Problem;
use crate::app::error::Error;
use crate::view::json;
use crate::view::request::MAX_BODY_BYTES;

const JSON: &[u8] = b"application/json";

pub(super) async fn check(request: Request, next: Next) -> Result<Response, Problem> {
    if request.method() != Method::POST || !is_mcp(request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| too_large())?;
    json::read(&bytes)?;
    let is_json = parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(JSON));
    let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
    // The protocol's library refuses JSON that is no valid message in this way.
    if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Err(Error::invalid("body", "the body is not one JSON-RPC message").into());
    }
    Ok(response)
}
