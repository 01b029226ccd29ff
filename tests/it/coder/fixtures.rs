//! Recorded answers of a real server, replayed to the client method that asks for them.

use std::collections::BTreeMap;
use std::fmt::Write;

use chrono::{DateTime, Datelike, Utc};
use fleet_mcp::coder::{Client, CoderError, OPERATIONS, Operation};
use serde_json::Value;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::calls::call;
use super::{client, server};

/// Recordings that no client method asks for, and why they are kept.
const UNCALLED: [(&str, &str); 52] = [
    ("003-healthz", "liveness of the server, not ours to ask"),
    ("009-users-me", "the user is not ours to ask"),
    ("011-users-me-organizations", "the same organizations by another path"),
    ("013-token-create-admin-7d", "tokens are made by people"),
    ("015-tokens-list", "tokens are made by people"),
    ("016-tokenconfig", "tokens are made by people"),
    ("017-users-me-with-long-token", "the user is not ours to ask"),
    ("020-auth-bearer-header", "the user is not ours to ask"),
    ("039-templates-list-org", "the same templates by another path"),
    ("041-template-by-id", "templates are read by name"),
    ("042-template-versions", "only the active version matters"),
    ("043-templateversion", "only parameters and presets of a version matter"),
    ("046-templateversion-resources", "resources are read from workspaces"),
    ("049-build-right-after-create", "builds are read with their workspace"),
    ("050-timeline-create-to-ready", "a timeline of status words"),
    ("051-workspace-watch-sse", "the list says the same"),
    ("053-build-logs-follow-ws", "logs are read in pages"),
    ("057-build-resources", "resources come with the build"),
    ("059-agent-get", "agents come with the build"),
    ("060-agent-logs", "logs of agents are not read"),
    ("064-agent-watch-metadata-ws", "the event stream says the same"),
    ("065-workspace-watch-ws", "the event stream says the same"),
    ("066-build-logs-follow-ws", "logs are read in pages"),
    ("067-agent-logs-follow-ws", "logs are read in pages"),
    ("104-workspace-build-by-number", "builds are read with their workspace"),
    ("126-tasks-list-empty", "Tasks is deprecated"),
    ("176-timeline-build-stop", "a timeline of status words"),
    ("180-timeline-build-start", "a timeline of status words"),
    ("187-timeline-build-restart-on-success", "a timeline of status words"),
    ("193-timeline-failing-build", "a timeline of status words"),
    ("203-build-get-canceling", "builds are read with their workspace"),
    ("204-timeline-cancel-build", "a timeline of status words"),
    ("207-err-bad-token", "the user is not ours to ask"),
    ("210-err-no-such-route", "shows an unknown route"),
    ("213-err-missing-build", "builds are read with their workspace"),
    ("214-err-missing-template", "templates are read by name"),
    ("215-err-missing-agent", "agents come with the build"),
    ("251-timeline-delete-failed", "a timeline of status words"),
    ("262-timeline-delete-orphan", "a timeline of status words"),
    ("281-timeline-startup-script-fails", "a timeline of status words"),
    ("284-timeline-agent-killed", "a timeline of status words"),
    ("290-timeline-agent-frozen", "a timeline of status words"),
    ("298-timeline-startup-script-fails-2", "a timeline of status words"),
    ("333-cookie-vs-header-precedence", "a finding, not an answer"),
    ("337-scoped-me", "the user is not ours to ask"),
    ("338-rate-limited-429", "the same organizations by another path"),
    ("339-rate-limited-other-path-ok", "the user is not ours to ask"),
    ("340-rate-limited-query-string-same-bucket", "the same organizations by another path"),
    ("341-rate-limited-bypass-owner", "the same organizations by another path"),
    ("362-race-stop", "several answers in one file"),
    ("395-app-proxy-no-slash", "we always ask with a slash"),
    ("401-agent-pty-exec-ws", "frames of a terminal"),
];

#[tokio::test]
async fn every_recorded_answer_reaches_its_caller_unchanged() {
    let replayer = Replayer::start().await;
    let mut report = String::new();
    let mut uncalled = Vec::new();
    for (name, recording) in recordings() {
        let Some((operation, values)) = recorded_call(&recording) else {
            uncalled.push(name);
            continue;
        };
        let line = match replayer.replay(operation, &values, &recording).await {
            Ok(read) => {
                assert_same(operation.name, &read, &recorded_body(&recording));
                "ok".to_owned()
            }
            Err(error) => format!("{:?} {:?}: {error}", error.outcome(), error.kind()),
        };
        writeln!(report, "{name}: {} {line}", operation.name).unwrap();
    }
    assert_eq!(uncalled, UNCALLED.map(|(name, _)| name));
    insta::assert_snapshot!(report);
}

#[tokio::test]
async fn a_version_without_presets_answers_null() {
    let server = server(ResponseTemplate::new(200).set_body_string("null")).await;
    assert_eq!(call(&client(&server.uri()), "presets", &[]).await.unwrap(), Value::Array(Vec::new()));
}

/// Every recording that a client method understood: the operation, what was sent, what was read.
pub(super) async fn recorded_calls() -> Vec<(&'static Operation, Value, Value)> {
    let replayer = Replayer::start().await;
    let mut calls = Vec::new();
    for recording in recordings().values().filter(|recording| events(recording).is_none()) {
        let Some((operation, values)) = recorded_call(recording) else { continue };
        if let Ok(read) = replayer.replay(operation, &values, recording).await {
            calls.push((operation, recording["body"].clone(), read));
        }
    }
    calls
}

/// A server that plays one recording after another, and a client that asks for them.
struct Replayer {
    server: MockServer,
    client: Client,
}

impl Replayer {
    async fn start() -> Self {
        let server = MockServer::start().await;
        let client = client(&server.uri());
        Self { server, client }
    }

    /// Serves the recording to the client method that asks for it.
    async fn replay(
        &self,
        operation: &Operation,
        values: &[&str],
        recording: &Value,
    ) -> Result<Value, CoderError> {
        self.server.reset().await;
        Mock::given(any()).respond_with(answer(recording)).mount(&self.server).await;
        call(&self.client, operation.name, values).await
    }
}

fn answer(recording: &Value) -> ResponseTemplate {
    if let Some(events) = events(recording) {
        let text: String = events.iter().map(event_text).collect();
        return ResponseTemplate::new(200).set_body_raw(text, "text/event-stream");
    }
    let mut answer = ResponseTemplate::new(u16::try_from(recording["status"].as_u64().unwrap()).unwrap());
    for (name, value) in recording["headers"].as_object().unwrap() {
        answer = answer.insert_header(name.as_str(), value.as_str().unwrap());
    }
    let kind = recording["headers"]["Content-Type"].as_str().unwrap_or("");
    match &recording["body"] {
        Value::String(text) => answer.set_body_raw(text.clone(), kind),
        body => answer.set_body_raw(body.to_string(), kind),
    }
}

/// The recorded body as the client method should return it: of a stream the first event.
fn recorded_body(recording: &Value) -> Value {
    events(recording).map_or(&recording["body"], |events| &events[0]["data"]).clone()
}

fn events(recording: &Value) -> Option<&Vec<Value>> {
    recording.get("events")?.as_array()
}

fn event_text(event: &Value) -> String {
    let kind = event["event"].as_str().unwrap();
    let data = event.get("data").map(|data| format!("data: {data}\n")).unwrap_or_default();
    format!("event: {kind}\n{data}\n")
}

/// Which client method would ask for this recording, and with which values in its path.
fn recorded_call(recording: &Value) -> Option<(&'static Operation, Vec<&str>)> {
    let request = recording.get("request")?;
    let path = request["path"].as_str()?;
    if path.contains("follow=true") || path.contains('{') {
        return None; // Frames of a WebSocket, no answer to a request.
    }
    let path = path.split('?').next()?;
    let method = request["method"].as_str().unwrap_or("GET");
    // We create through the organization; the recordings mostly use the shorter path of the same handler.
    if (method, path.ends_with("/workspaces")) == ("POST", true) {
        let create = OPERATIONS.into_iter().find(|operation| operation.name == "workspace_create")?;
        return Some((create, Vec::new()));
    }
    OPERATIONS.into_iter().find_map(|operation| {
        let asks = operation.methods.iter().any(|known| known.as_str() == method);
        asks.then(|| matched(operation.path, path)).flatten().map(|values| (operation, values))
    })
}

/// The values of a template's placeholders in a path, when the path fits.
pub(super) fn matched<'a>(template: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let mut values = Vec::new();
    let mut segments = path.splitn(template.split('/').count(), '/');
    for part in template.split('/') {
        let segment = segments.next()?;
        match part.split_once('{') {
            Some((prefix, _)) => values.push(segment.strip_prefix(prefix)?),
            None if part == segment => {}
            None => return None,
        }
    }
    let last_may_be_long = template.ends_with("{path}");
    (last_may_be_long || !values.last().is_some_and(|value| value.contains('/'))).then_some(values)
}

/// Everything that was read must be in what was sent, value for value.
fn assert_same(place: &str, read: &Value, sent: &Value) {
    match (read, sent) {
        (Value::Object(read), Value::Object(sent)) => {
            for (key, value) in read {
                assert_same(&format!("{place}.{key}"), value, sent.get(key).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(read), Value::Array(sent)) => {
            assert_eq!(read.len(), sent.len(), "{place}");
            read.iter().zip(sent).for_each(|(read, sent)| assert_same(place, read, sent));
        }
        (Value::Null, sent) => assert!(says_nothing(sent), "{place}: {sent} was read as nothing"),
        (read, Value::Null) => assert!(says_nothing(read), "{place}: {read} was read out of nothing"),
        (Value::String(read), Value::String(sent)) if time(read).is_some() => {
            assert_eq!(time(read), time(sent), "{place}");
        }
        (read, sent) => assert_eq!(read, sent, "{place}"),
    }
}

fn says_nothing(value: &Value) -> bool {
    let zero_time = value.as_str().and_then(time).is_some_and(|time| time.year() == 1);
    let dropped = value.get("message").is_some();
    zero_time
        || dropped
        || [Value::Null, false.into(), 0.into(), "".into(), Value::Array(Vec::new())].contains(value)
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    text.parse().ok()
}

/// All recordings in the order of their numbers.
fn recordings() -> BTreeMap<String, Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/coder");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let numbered = files.filter(|path| !path.ends_with("status-tuples.json"));
    numbered
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap())
        })
        .collect()
}
