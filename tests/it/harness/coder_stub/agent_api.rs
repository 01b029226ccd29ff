//! The app proxy and, behind it, a scripted AgentAPI for every workspace.

use super::answers::{Answer, Reply, json_object};
use super::routes::Call;
use super::shapes::{APP_SLUG, time};
use super::state::{State, Workspace};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

/// What the agent does with a user message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentScript {
    /// Answers at once and waits for the next message.
    Answer,
    /// Works until the test says it is finished, or an ESC interrupts it.
    Work,
}

/// A request as it reached the app inside the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppRequest {
    pub(crate) method: String,
    /// With its query, which the proxy passes on whole.
    pub(crate) endpoint: String,
    /// Sorted by name; without the cookies that the proxy takes away.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

pub(super) struct AgentApi {
    pub(super) script: AgentScript,
    pub(super) received: Vec<AppRequest>,
    running: bool,
    messages: Vec<Message>,
}

struct Message {
    role: &'static str,
    content: String,
    time: DateTime<Utc>,
}

impl AgentApi {
    pub(super) fn new() -> Self {
        let mut fresh =
            Self { script: AgentScript::Answer, received: Vec::new(), running: false, messages: Vec::new() };
        fresh.say("agent", "hello, I am a scripted agent");
        fresh
    }

    /// Takes what the workspace was started with, as a template gives it to its agent.
    pub(super) fn start_with(&mut self, prompt: &str) {
        if !prompt.trim().is_empty() {
            self.take(prompt);
        }
    }

    /// The app of an agent that reports agrees with its reports.
    pub(super) fn reported(&mut self, state: &str) {
        self.running = state == "working";
    }

    /// Ends the running work with a last message.
    pub(super) fn finish(&mut self, content: &str) {
        self.running = false;
        self.say("agent", content);
    }

    fn say(&mut self, role: &'static str, content: &str) {
        self.messages.push(Message { role, content: content.to_owned(), time: Utc::now() });
    }

    fn answer(&mut self, call: &Call) -> Answer {
        match (call.method.as_str(), call.arg(3)) {
            ("GET", "status") => {
                let status = if self.running { "running" } else { "stable" };
                Ok(json_reply(json!({ "status": status, "agent_type": "custom", "transport": "pty" })))
            }
            ("GET", "messages") => Ok(json_reply(json!({ "messages": self.rows() }))),
            ("POST", "message") => self.receive(&call.body),
            (_, _) => Ok(problem(404, "Not Found", &json!([]))),
        }
    }

    fn rows(&self) -> Vec<Value> {
        let row = |(id, message): (usize, &Message)| {
            json!({
                "id": id,
                "role": message.role,
                "content": message.content,
                "time": time(message.time),
            })
        };
        self.messages.iter().enumerate().map(row).collect()
    }

    fn receive(&mut self, body: &[u8]) -> Answer {
        let body = json_object(body)?;
        let content = body.get("content").and_then(Value::as_str).unwrap_or_default();
        match body.get("type").and_then(Value::as_str).unwrap_or_default() {
            "user" if self.running => {
                let message = "failed to send message: \
                               message can only be sent when the agent is waiting for user input";
                return Ok(problem(500, "Internal Server Error", &json!([{ "message": message }])));
            }
            "user" => self.take(content),
            "raw" if content.contains('\u{1b}') && self.running => self.finish("interrupted"),
            "raw" => {}
            other => {
                let errors = json!([{ "location": "body.type", "value": other }]);
                return Ok(problem(422, "Unprocessable Entity", &errors));
            }
        }
        Ok(json_reply(json!({ "ok": true })))
    }

    fn take(&mut self, content: &str) {
        self.say("user", content);
        match self.script {
            AgentScript::Answer => self.say("agent", &format!("done: {content}")),
            AgentScript::Work => self.running = true,
        }
    }
}

/// Passes a request with a valid cookie on to the workspace's app.
pub(super) fn proxy(state: &mut State, call: &Call) -> Answer {
    let (name, agent) = call.arg(1).split_once('.').unwrap_or((call.arg(1), "main"));
    let owner = (call.arg(0) != "me").then(|| state.user(call.arg(0))).flatten().map(|user| user.id);
    let id = owner.and_then(|owner| state.workspace_named(owner, name)).map(|workspace| workspace.id);
    let workspace = id.and_then(|id| state.workspace_mut(id)).filter(|_| agent == "main");
    let Some(workspace) = workspace.filter(|_| call.arg(2) == APP_SLUG) else { return Err(no_app()) };
    check_reachable(workspace)?;
    workspace.agent_api.received.push(AppRequest::new(call));
    workspace.agent_api.answer(call)
}

/// The bare app path redirects to the app's root.
pub(super) fn without_slash(_: &mut State, call: &Call) -> Answer {
    let location = format!("{}/", call.path);
    let body = format!("<a href=\"{location}\">Temporary Redirect</a>.\n\n");
    Ok(Reply::text(307, "text/html; charset=utf-8", &body).header("Location", &location))
}

impl AppRequest {
    fn new(call: &Call) -> Self {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut headers: Vec<(String, String)> =
            call.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        for (name, value) in &mut headers {
            if name == "cookie" {
                *value = without_coder_cookies(value);
            }
        }
        headers.retain(|(name, value)| name != "cookie" || !value.is_empty());
        headers.sort();
        Self {
            method: call.method.clone(),
            endpoint: call.raw_query.iter().fold(call.arg(3).to_owned(), |path, query| path + "?" + query),
            headers,
            body: String::from_utf8_lossy(&call.body).into_owned(),
        }
    }
}

fn without_coder_cookies(cookies: &str) -> String {
    let kept = cookies.split(';').map(str::trim).filter(|cookie| !cookie.starts_with("coder_"));
    kept.collect::<Vec<_>>().join("; ")
}

fn check_reachable(workspace: &Workspace) -> Result<(), Reply> {
    match workspace.latest().agent.as_ref().map(|agent| agent.status.as_str()) {
        None => Err(no_app()),
        Some("connected") => Ok(()),
        Some(_) => Err(Reply::html(502, "502 - Bad Gateway")),
    }
}

fn no_app() -> Reply {
    Reply::html(404, "404 - Application Not Found")
}

fn json_reply(body: Value) -> Reply {
    Reply { content_type: "application/json", ..Reply::json(200, body) }
}

fn problem(status: u16, title: &str, errors: &Value) -> Reply {
    let body = json!({ "title": title, "status": status, "detail": title, "errors": errors });
    Reply { content_type: "application/problem+json", ..Reply::json(status, body) }
}
