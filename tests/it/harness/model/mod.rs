//! A model on loopback that plays a script, for the real CLIs: both of their protocols, every request kept.
//!
//! ```ignore
//! let model = ModelEndpoint::start(vec![Turn::shell("touch x"), Turn::fleet("list_agents", |_| json!({}))]).await;
//! ```

mod anthropic;
mod openai;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the model does in one turn; the words of each CLI are put in by its protocol.
pub(crate) enum Turn {
    Say(String),
    /// A command in the CLI's own shell tool.
    Shell(String),
    /// One of our tools; its arguments may depend on the results of all calls before.
    Fleet {
        tool: &'static str,
        arguments: Arguments,
        is_enough: Check,
    },
}

type Arguments = Box<dyn Fn(&[String]) -> Value + Send + Sync>;
type Check = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Turn {
    pub(crate) fn say(text: &str) -> Self {
        Self::Say(text.to_owned())
    }

    pub(crate) fn shell(command: &str) -> Self {
        Self::Shell(command.to_owned())
    }

    pub(crate) fn fleet(
        tool: &'static str,
        arguments: impl Fn(&[String]) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::fleet_until(tool, arguments, |_| true)
    }

    /// The same, repeated until its result is enough.
    pub(crate) fn fleet_until(
        tool: &'static str,
        arguments: impl Fn(&[String]) -> Value + Send + Sync + 'static,
        is_enough: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::Fleet { tool, arguments: Box::new(arguments), is_enough: Box::new(is_enough) }
    }

    /// Has it to be played again after this result?
    fn is_unfinished(&self, result: Option<&String>) -> bool {
        match self {
            Self::Fleet { is_enough, .. } => !result.is_some_and(|result| is_enough(result)),
            Self::Say(_) | Self::Shell(_) => false,
        }
    }
}

/// A tool call or words, with the arguments put in.
enum Act {
    Say(String),
    Shell(String),
    Fleet { server: &'static str, tool: &'static str, arguments: Value },
}

/// A request of a CLI, as it came.
#[derive(Clone, Debug)]
pub(crate) struct ModelRequest {
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// Serves until it is dropped.
pub(crate) struct ModelEndpoint {
    pub(crate) url: String,
    stage: Arc<Stage>,
    serving: JoinHandle<()>,
}

struct Stage {
    parts: Vec<Part>,
    requests: Mutex<Vec<ModelRequest>>,
}

/// The script of the conversations in whose requests the cue stands.
struct Part {
    cue: &'static str,
    script: Vec<Turn>,
    n_played: Mutex<usize>,
}

impl ModelEndpoint {
    pub(crate) async fn start(script: Vec<Turn>) -> Self {
        Self::start_parts(vec![("", script)]).await
    }

    /// Several conversations at once: each plays the first script whose cue stands in its requests.
    pub(crate) async fn start_parts(parts: Vec<(&'static str, Vec<Turn>)>) -> Self {
        let part = |(cue, script)| Part { cue, script, n_played: Mutex::default() };
        let parts = parts.into_iter().map(part).collect();
        let stage = Arc::new(Stage { parts, requests: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&stage));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, stage, serving }
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.stage.requests.lock().unwrap().clone()
    }

    /// How many turns of the scripts have been played.
    pub(crate) fn n_played(&self) -> usize {
        self.stage.parts.iter().map(|part| *part.n_played.lock().unwrap()).sum()
    }

    /// The results of all tool calls, as the CLI last told them.
    pub(crate) fn results(&self) -> Vec<String> {
        self.results_in("")
    }

    /// The same of the conversation with this cue.
    pub(crate) fn results_in(&self, cue: &str) -> Vec<String> {
        let requests = self.requests();
        let ours = requests.iter().rev().filter(|request| request.body.to_string().contains(cue));
        ours.map(|request| results_of(&request.body)).max_by_key(Vec::len).unwrap_or_default()
    }

    /// The tools of one MCP server that any request offered the model.
    pub(crate) fn tools_of(&self, server: &str) -> Vec<String> {
        let mut found = BTreeSet::new();
        self.requests().iter().for_each(|request| names_in(&request.body["tools"], &mut found));
        let of_server = |name: &String| name == server || name.starts_with(&format!("{server}__"));
        found.into_iter().filter(of_server).collect()
    }
}

impl Drop for ModelEndpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The JSON of a fleet tool's answer, without the text that a CLI has written around it.
pub(crate) fn json_in(result: &str) -> Value {
    let start = result.find('{').unwrap_or_else(|| panic!("no JSON in {result}"));
    let mut values = serde_json::Deserializer::from_str(&result[start..]).into_iter::<Value>();
    values.next().unwrap().unwrap_or_else(|error| panic!("{error}: {result}"))
}

async fn answer(State(stage): State<Arc<Stage>>, uri: Uri, body: String) -> Response {
    let Ok(body) = serde_json::from_str::<Value>(&body) else { return StatusCode::NOT_FOUND.into_response() };
    let path = uri.path().to_owned();
    stage.requests.lock().unwrap().push(ModelRequest { path: path.clone(), body: body.clone() });
    match path.as_str() {
        "/v1/messages/count_tokens" => axum::Json(json!({ "input_tokens": 1 })).into_response(),
        "/v1/messages" => events(&anthropic::events(stage.next(&body), &body["model"])),
        "/v1/responses" => events(&openai::events(stage.next(&body))),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

impl Stage {
    /// The next act of the script; side requests without tools, such as one for a title, get a word of their own.
    fn next(&self, body: &Value) -> Act {
        if body["tools"].as_array().is_none_or(Vec::is_empty) {
            return Act::Say("a title".to_owned());
        }
        let text = body.to_string();
        let Some(part) = self.parts.iter().find(|part| text.contains(part.cue)) else {
            return Act::Say("no script has this cue".to_owned());
        };
        part.next(body)
    }
}

impl Part {
    fn next(&self, body: &Value) -> Act {
        let results = results_of(body);
        let mut n_played = self.n_played.lock().unwrap();
        let before = n_played.checked_sub(1).and_then(|last| self.script.get(last));
        if before.is_some_and(|turn| turn.is_unfinished(results.last())) {
            *n_played -= 1;
        }
        let Some(turn) = self.script.get(*n_played) else {
            return Act::Say("the script has ended".to_owned());
        };
        *n_played += 1;
        match turn {
            Turn::Say(text) => Act::Say(text.clone()),
            Turn::Shell(command) => Act::Shell(command.clone()),
            Turn::Fleet { tool, arguments, .. } => {
                Act::Fleet { server: server_in(body), tool, arguments: arguments(&results) }
            }
        }
    }
}

/// Every name in the list of tools, of which one protocol nests those of a server.
fn names_in(tools: &Value, found: &mut BTreeSet<String>) {
    for tool in tools.as_array().into_iter().flatten() {
        found.extend(tool["name"].as_str().map(str::to_owned));
        names_in(&tool["tools"], found);
    }
}

/// What this CLI calls the fleet: a client that people connected, or an agent of the fleet.
fn server_in(body: &Value) -> &'static str {
    if body["tools"].to_string().contains("mcp__fleet_agent") { "mcp__fleet_agent" } else { "mcp__fleet" }
}

/// Tool results in a request of either protocol, oldest first.
fn results_of(body: &Value) -> Vec<String> {
    match body["input"].as_array() {
        Some(items) => openai::results(items),
        None => anthropic::results(&body["messages"]),
    }
}

/// Text that may come whole or in blocks.
fn text_of(content: &Value) -> String {
    match content.as_array() {
        Some(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        None => content.as_str().unwrap_or_default().to_owned(),
    }
}

fn events(events: &[Value]) -> Response {
    let mut stream = String::new();
    for event in events {
        write!(stream, "event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()).unwrap();
    }
    ([(header::CONTENT_TYPE, "text/event-stream")], stream).into_response()
}

/// Ids are unique: a CLI takes two answers with one id for one.
fn fresh_id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::new_v4().simple())
}
