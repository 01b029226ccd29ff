//! A model on loopback that plays a script, for the real CLIs: both of their protocols, every request kept.
//!
//! ```ignore
//! let model = ModelEndpoint::start(vec![Turn::shell("touch x"), Turn::fleet("list_agents", |_| json!({}))]).await;
//! ```

mod anthropic;
mod openai;

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
    },
}

type Arguments = Box<dyn Fn(&[String]) -> Value + Send + Sync>;

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
        Self::Fleet { tool, arguments: Box::new(arguments) }
    }
}

/// A tool call or words, with the arguments put in.
enum Act {
    Say(String),
    Shell(String),
    Fleet { tool: &'static str, arguments: Value },
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
    script: Vec<Turn>,
    requests: Mutex<Vec<ModelRequest>>,
    n_played: Mutex<usize>,
}

impl ModelEndpoint {
    pub(crate) async fn start(script: Vec<Turn>) -> Self {
        let stage = Arc::new(Stage { script, requests: Mutex::default(), n_played: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&stage));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, stage, serving }
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.stage.requests.lock().unwrap().clone()
    }

    /// How many turns of the script have been played.
    pub(crate) fn n_played(&self) -> usize {
        *self.stage.n_played.lock().unwrap()
    }

    /// The results of all tool calls, as the CLI last told them.
    pub(crate) fn results(&self) -> Vec<String> {
        let requests = self.requests();
        let told = requests.iter().rev().map(|request| results_of(&request.body));
        told.max_by_key(Vec::len).unwrap_or_default()
    }
}

impl Drop for ModelEndpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The JSON a fleet tool answered with, whatever a CLI has written around it.
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
        let mut n_played = self.n_played.lock().unwrap();
        let Some(turn) = self.script.get(*n_played) else {
            return Act::Say("the script has ended".to_owned());
        };
        *n_played += 1;
        match turn {
            Turn::Say(text) => Act::Say(text.clone()),
            Turn::Shell(command) => Act::Shell(command.clone()),
            Turn::Fleet { tool, arguments } => Act::Fleet { tool, arguments: arguments(&results_of(body)) },
        }
    }
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
