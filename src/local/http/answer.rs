//! Responses in Coder's format: JSON with its content type, and error bodies.

use axum::body::Body;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::local::LocalError;
use crate::local::parameters::InvalidParameter;

const JSON: &str = "application/json; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// A refused request, with its complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    body: Content,
    location: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Json(Map<String, Value>),
    Text { kind: &'static str, text: String },
}

/// An error about one field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validation {
    field: String,
    detail: String,
}

pub(crate) type Answer = Result<Response, Refusal>;

pub(crate) fn ok(body: &Value) -> Answer {
    Ok(respond(StatusCode::OK, JSON, body.to_string()))
}

pub(crate) fn created(body: &Value) -> Answer {
    Ok(respond(StatusCode::CREATED, JSON, body.to_string()))
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: &str) -> Self {
        let body = Map::from_iter([("message".to_owned(), json!(message))]);
        Self { status, body: Content::Json(body), location: None }
    }

    pub(crate) fn detail(self, detail: &str) -> Self {
        self.field("detail", json!(detail))
    }

    pub(crate) fn validations(self, rows: &[Validation]) -> Self {
        let rows: Vec<Value> =
            rows.iter().map(|row| json!({ "field": row.field, "detail": row.detail })).collect();
        self.field("validations", json!(rows))
    }

    /// A page for a browser: unreachable apps of agents are reported as pages.
    pub(crate) fn page(status: StatusCode, title: &str) -> Self {
        let text =
            format!("<!doctype html>\n<html lang=\"en\">\n<head><title>{title}</title></head>\n</html>\n");
        Self { status, body: Content::Text { kind: HTML, text }, location: None }
    }

    pub(crate) fn text(status: StatusCode, text: &str) -> Self {
        Self { status, body: Content::Text { kind: TEXT, text: text.to_owned() }, location: None }
    }

    pub(crate) fn redirect(status: StatusCode, location: &str) -> Self {
        let shown = location.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
        let title = status.canonical_reason().unwrap_or_default();
        let text = format!("<a href=\"{shown}\">{title}</a>.\n\n");
        Self { status, body: Content::Text { kind: HTML, text }, location: Some(location.to_owned()) }
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Resource not found or you do not have access to this resource")
    }

    pub(crate) fn signed_out(detail: &str) -> Self {
        let message = "You are signed out or your session has expired. Please sign in again to continue.";
        Self::new(StatusCode::UNAUTHORIZED, message).detail(detail)
    }

    pub(crate) fn invalid(rows: &[Validation]) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Validation failed.").validations(rows)
    }

    pub(crate) fn bad_json(detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Request body must be valid JSON.").detail(detail)
    }

    fn field(mut self, name: &str, value: Value) -> Self {
        if let Content::Json(body) = &mut self.body {
            body.insert(name.to_owned(), value);
        }
        self
    }
}

impl Validation {
    pub(crate) fn new(field: &str, detail: &str) -> Self {
        Self { field: field.to_owned(), detail: detail.to_owned() }
    }

    /// A failed tag of Coder's request validator.
    pub(crate) fn tag(field: &str, tag: &str, value: &str) -> Self {
        Self::new(field, &format!("Validation failed for tag \"{tag}\" with value: \"{value}\""))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = match self.body {
            Content::Json(body) => respond(self.status, JSON, Value::Object(body).to_string()),
            Content::Text { kind, text } => respond(self.status, kind, text),
        };
        if let Some(location) = self.location.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

/// A change that could not be saved is refused.
impl From<LocalError> for Refusal {
    fn from(error: LocalError) -> Self {
        let detail = error.chain();
        tracing::error!(error = detail, "the embedded Coder could not carry out a request");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error").detail(&detail)
    }
}

impl From<InvalidParameter> for Refusal {
    fn from(invalid: InvalidParameter) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Unable to validate parameters")
            .validations(&[Validation::new(invalid.parameter, &invalid.detail)])
    }
}

/// The endpoint requires a WebSocket.
impl From<WebSocketUpgradeRejection> for Refusal {
    fn from(rejection: WebSocketUpgradeRejection) -> Self {
        Self::text(StatusCode::UPGRADE_REQUIRED, &format!("{rejection}\n"))
    }
}

/// Parses an id in a path.
pub(crate) fn uuid(text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text).map_err(|_| {
        let detail = format!("invalid UUID length: {}", text.len());
        Refusal::new(StatusCode::BAD_REQUEST, &format!("Invalid UUID \"{text}\".")).detail(&detail)
    })
}

/// The JSON object of a request, or Coder's error if there is none.
pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if body.is_empty() {
        return Err(Refusal::bad_json("EOF"));
    }
    serde_json::from_slice(body).map_err(|error| Refusal::bad_json(&error.to_string()))
}

pub(crate) fn set_header(response: &mut Response, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
}

fn respond(status: StatusCode, kind: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
