//! Errors in AgentAPI's format: problem documents with details.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    errors: Vec<Value>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), errors: Vec::new() }
    }

    /// The message could not be sent, with the reason.
    pub(super) fn not_sent(reason: &str) -> Self {
        let mut problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unexpected error occurred");
        problem.errors.push(json!({ "message": format!("failed to send message: {reason}") }));
        problem
    }

    /// One value of the body is invalid.
    pub(super) fn invalid(error: Value) -> Self {
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "validation failed");
        problem.errors.push(error);
        problem
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not found")
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if !self.errors.is_empty() {
            body["errors"] = Value::Array(self.errors);
        }
        (self.status, [(header::CONTENT_TYPE, CONTENT_TYPE)], Json(body)).into_response()
    }
}
