//! `POST /message`: a task for the agent, or keystrokes for the current run.

use axum::Json;
use axum::extract::State as Shared;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::Api;
use super::problem::Problem;
use crate::engine::budget::BudgetError;
use crate::runner::entry::TaskKey;
use crate::runner::worker::{Command, Refusal, Submitted};

const MAX_CONTENT: usize = 256 * 1024;
/// Escape and Ctrl-C, the keys that stop a program in a terminal.
const INTERRUPTING: [char; 2] = ['\u{1b}', '\u{3}'];

pub(super) async fn post(
    Shared(api): Shared<Api>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(body) = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
    match Request::parse(&body)? {
        Request::User(message) => submit(&api, message).await?,
        Request::Command(command) => api.commands.send(command).await.map_err(|_| stopping())?,
        // Other keystrokes have no effect without a terminal.
        Request::Keystrokes => {}
    }
    Ok(Json(json!({ "ok": true })))
}

async fn submit(api: &Api, message: Submitted) -> Result<(), Problem> {
    let (answer, answered) = oneshot::channel();
    let command = Command::Submit { message, answer };
    api.commands.send(command).await.map_err(|_| stopping())?;
    match answered.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refusal)) => Err(problem(&refusal)),
        Err(_) => Err(stopping()),
    }
}

fn problem(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::Busy => Problem::not_sent(&refusal.to_string()),
        Refusal::Full => Problem::new(StatusCode::TOO_MANY_REQUESTS, refusal.to_string()),
        Refusal::Budget(BudgetError::UsedUp(_)) => {
            Problem::new(StatusCode::PAYMENT_REQUIRED, refusal.to_string())
        }
        // A retry would be refused too, until the file is repaired.
        Refusal::Budget(BudgetError::Unreadable(_)) => {
            Problem::new(StatusCode::CONFLICT, refusal.to_string())
        }
        Refusal::Stopping => stopping(),
        Refusal::Journal(error) => {
            tracing::error!(error = error as &dyn std::error::Error, "a message could not be stored");
            Problem::not_sent(&refusal.to_string())
        }
    }
}

fn stopping() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the agent is stopping")
}

#[derive(Debug)]
enum Request {
    User(Submitted),
    Command(Command),
    Keystrokes,
}

impl Request {
    fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = body
            .as_object()
            .ok_or_else(|| Problem::invalid(json!({ "message": "expected object", "location": "body" })))?;
        known_only(fields)?;
        let content = text(fields, "content")?.ok_or_else(|| absent("content", body))?;
        let kind = text(fields, "type")?.ok_or_else(|| absent("type", body))?;
        let task_id = text(fields, "task_id")?.map(task_key).transpose()?;
        match kind.as_str() {
            "user" if content.trim().is_empty() => Err(invalid("content", "expected some text")),
            "user" if content.len() > MAX_CONTENT => {
                Err(invalid("content", &format!("expected at most {MAX_CONTENT} bytes")))
            }
            "user" => {
                let is_continued = flag(fields, "continues")?;
                Ok(Self::User(Submitted { content, task_id, is_continued }))
            }
            "raw" if content.contains(INTERRUPTING) => interruption(fields, task_id).map(Self::Command),
            "raw" => Ok(Self::Keystrokes),
            other => Err(Problem::invalid(json!({ "location": "body.type", "value": other }))),
        }
    }
}

/// Escape ends the current run. With `cancel` it ends the named task in any state, including while it waits.
fn interruption(fields: &Map<String, Value>, task_id: Option<TaskKey>) -> Result<Command, Problem> {
    match (flag(fields, "cancel")?, task_id) {
        (false, task_id) => Ok(Command::Interrupt { task_id }),
        (true, Some(task_id)) => Ok(Command::Cancel { task_id }),
        (true, None) => Err(invalid("task_id", "expected the task to cancel")),
    }
}

fn task_key(text: String) -> Result<TaskKey, Problem> {
    let wanted = || invalid("task_id", &format!("expected 1 to {} bytes", TaskKey::MAX));
    TaskKey::parse(text).ok_or_else(wanted)
}

fn known_only(fields: &Map<String, Value>) -> Result<(), Problem> {
    let known = ["$schema", "content", "type", "task_id", "cancel", "continues"];
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(invalid(key, "unexpected property")),
    }
}

/// A boolean field; false if absent.
fn flag(fields: &Map<String, Value>, name: &str) -> Result<bool, Problem> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(invalid(name, "expected boolean")),
    }
}

/// A text field, or none; null counts as absent.
fn text(fields: &Map<String, Value>, name: &str) -> Result<Option<String>, Problem> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(name, "expected string")),
    }
}

fn invalid(name: &str, message: &str) -> Problem {
    Problem::invalid(json!({ "message": message, "location": format!("body.{name}") }))
}

fn absent(name: &str, body: &Value) -> Problem {
    let message = format!("expected required property {name} to be present");
    Problem::invalid(json!({ "message": message, "location": "body", "value": body }))
}
