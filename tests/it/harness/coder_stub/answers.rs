//! What a handler answers, and the error bodies a real Coder was seen to send.

use serde_json::{Map, Value, json};

/// A handler's result: either side is an answer, so that `?` ends it with an error body.
pub(super) type Answer = Result<Reply, Reply>;

#[derive(Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Body,
}

#[derive(Clone)]
pub(super) enum Body {
    Json(Value),
    Text(String),
}

impl Reply {
    pub(super) fn json(status: u16, body: Value) -> Self {
        let content_type = "application/json; charset=utf-8";
        Self { status, content_type, headers: Vec::new(), body: Body::Json(body) }
    }

    pub(super) fn text(status: u16, content_type: &'static str, body: &str) -> Self {
        Self { status, content_type, headers: Vec::new(), body: Body::Text(body.to_owned()) }
    }

    pub(super) fn html(status: u16, title: &str) -> Self {
        let page = format!("<!doctype html>\n<html lang=\"en\"><head><title>{title}</title></head></html>\n");
        Self::text(status, "text/html; charset=utf-8", &page)
    }

    pub(super) fn error(status: u16, message: &str) -> Self {
        Self::json(status, json!({ "message": message }))
    }

    pub(super) fn detail(self, detail: &str) -> Self {
        self.field("detail", json!(detail))
    }

    pub(super) fn validations(self, rows: &[Validation]) -> Self {
        let rows: Vec<Value> =
            rows.iter().map(|row| json!({ "field": row.field, "detail": row.detail })).collect();
        self.field("validations", json!(rows))
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::Json(value) => value.to_string().into_bytes(),
            Body::Text(text) => text.clone().into_bytes(),
        }
    }

    fn field(mut self, name: &str, value: Value) -> Self {
        if let Body::Json(body) = &mut self.body {
            body[name] = value;
        }
        self
    }
}

/// What is wrong with one field of a request.
pub(super) struct Validation {
    field: String,
    detail: String,
}

impl Validation {
    pub(super) fn new(field: &str, detail: &str) -> Self {
        Self { field: field.to_owned(), detail: detail.to_owned() }
    }

    /// A failed tag of Coder's request validator.
    pub(super) fn tag(field: &str, tag: &str, value: &str) -> Self {
        Self::new(field, &format!("Validation failed for tag \"{tag}\" with value: \"{value}\""))
    }
}

pub(super) fn not_found() -> Reply {
    Reply::error(404, "Resource not found or you do not have access to this resource")
}

pub(super) fn signed_out(detail: &str) -> Reply {
    let message = "You are signed out or your session has expired. Please sign in again to continue.";
    Reply::error(401, message).detail(detail)
}

pub(super) fn validation_failed(rows: &[Validation]) -> Reply {
    Reply::error(400, "Validation failed.").validations(rows)
}

pub(super) fn bad_json(detail: &str) -> Reply {
    Reply::error(400, "Request body must be valid JSON.").detail(detail)
}

pub(super) fn name_taken(name: &str) -> Reply {
    let detail = "This value is already in use and should be unique.";
    Reply::error(409, &format!("Workspace \"{name}\" already exists."))
        .validations(&[Validation::new("name", detail)])
}

pub(super) fn build_active() -> Reply {
    let message = "A workspace build is already active.";
    Reply::error(409, message).detail(message)
}

/// Parses a request's JSON object, answering as Coder does when there is none.
pub(super) fn json_object(body: &[u8]) -> Result<Map<String, Value>, Reply> {
    if body.is_empty() {
        return Err(bad_json("EOF"));
    }
    serde_json::from_slice(body).map_err(|error| bad_json(&error.to_string()))
}
