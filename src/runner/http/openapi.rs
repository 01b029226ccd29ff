//! `GET /openapi.json`: what can be asked of a runner, in the form that clients of AgentAPI read.

use axum::http::header;
use axum::response::IntoResponse;

const DOCUMENT: &str = include_str!("openapi.json");

pub(super) async fn show() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}
