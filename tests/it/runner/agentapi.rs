//! AgentAPI as others know it: the same keys, types, codes and event names as recorded from the original.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::workspace::{Runner, Workspace};
use crate::harness::{Reply, eventually};

fn recorded() -> Value {
    serde_json::from_str(include_str!("../../fixtures/agentapi/recorded.json")).unwrap()
}

/// The keys of an object and the type of each value.
fn shape(value: &Value) -> BTreeMap<String, &'static str> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    value.as_object().unwrap().iter().map(|(key, value)| (key.clone(), kind(value))).collect()
}

fn summary(reply: &Reply) -> Value {
    let content_type = reply.headers["content-type"].to_str().unwrap();
    json!({ "status": reply.status, "content_type": content_type, "body": reply.body })
}

#[tokio::test]
async fn answers_are_those_of_the_recordings() {
    let recorded = recorded();
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.say("say hello\nsleep 60").await;
    let status = runner.get("/status").await;
    assert_eq!(status, json!({ "status": "running", "agent_type": "demo", "transport": "pty" }));
    assert_eq!(shape(&status), shape(&recorded["status"]["body"]));
    let busy = runner.post(&json!({ "content": "and this", "type": "user" })).await;
    assert_eq!(summary(&busy), recorded["message_while_running"]);
    let bogus = runner.post(&json!({ "content": "x", "type": "bogus" })).await;
    assert_eq!(summary(&bogus), recorded["message_of_bad_type"]);
    let messages = runner.get("/messages").await;
    for message in messages["messages"].as_array().unwrap() {
        assert_eq!(shape(message), shape(&recorded["messages"]["body"]["messages"][0]));
    }
    eventually("the agent has spoken", async || {
        runner.get("/messages").await["messages"][1]["content"] == "hello"
    })
    .await;
    runner.escape().await;
    runner.stable().await;
    let messages = runner.get("/messages").await;
    let told = |message: &Value| (message["id"].clone(), message["role"].clone(), message["content"].clone());
    assert_eq!(
        messages["messages"].as_array().unwrap().iter().map(told).collect::<Vec<_>>(),
        [
            (json!(0), json!("user"), json!("say hello\nsleep 60")),
            (json!(1), json!("agent"), json!("hello\nInterrupted on request.")),
        ]
    );
}

/// Events until the agent is stable again after having run.
async fn events_of_a_run(runner: &Runner) -> Vec<(String, Value)> {
    let reply = runner.get_request("/events").send().await.unwrap();
    assert_eq!(reply.headers()["content-type"], "text/event-stream");
    let mut events = sse_stream::SseStream::from_bytes_stream(reply.bytes_stream());
    let mut seen: Vec<(String, Value)> = Vec::new();
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        let Some(name) = event.event else { continue };
        seen.push((name, serde_json::from_str(&event.data.unwrap()).unwrap()));
        if seen.len() == 3 {
            runner.say("say one\nsleep 0.3\nfail two").await;
        }
        if seen.iter().any(|(name, _)| name == "agent_error") {
            return seen;
        }
    }
    panic!("the stream ended: {seen:?}");
}

#[tokio::test]
async fn events_tell_the_conversation_so_far_and_then_what_changes() {
    let recorded = recorded();
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.ask("say before").await;
    let events = events_of_a_run(&runner).await;
    for (name, data) in &events {
        let same = recorded["events"].as_array().unwrap().iter().find(|event| event["event"] == *name);
        if let Some(same) = same {
            assert_eq!(shape(data), shape(&same["data"]), "{name}");
        }
    }
    let told = |wanted: &str, key: &str| -> Vec<Value> {
        let wanted = events.iter().filter(|(name, _)| name == wanted);
        wanted.map(|(_, data)| data[key].clone()).collect()
    };
    assert_eq!(told("status_change", "status"), ["stable", "running", "stable"]);
    assert_eq!(told("agent_error", "message"), ["two"]);
    // How often a growing answer is told depends on how quickly it grows; its last form counts.
    let numbers = told("message_update", "id").into_iter().map(|id| id.as_u64().unwrap());
    let last: BTreeMap<u64, Value> = numbers.zip(told("message_update", "message")).collect();
    let expected = ["say before", "before", "say one\nsleep 0.3\nfail two", "one\ntwo"];
    assert_eq!(last, (0..).zip(expected.map(Value::from)).collect());
    assert_eq!(events[2].0, "status_change", "the conversation so far comes first, then the status");
}

#[tokio::test]
async fn invalid_messages_are_refused_and_change_nothing() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    let too_long = "x".repeat(256 * 1024 + 1);
    let refused = [
        (json!({ "type": "user" }), 422),
        (json!({ "content": "x" }), 422),
        (json!({ "content": 7, "type": "user" }), 422),
        (json!({ "content": " \n", "type": "user" }), 422),
        (json!({ "content": too_long, "type": "user" }), 422),
        (json!({ "content": "x", "type": "user", "task_id": "" }), 422),
        (json!({ "content": "x", "type": "user", "more": 1 }), 422),
        (json!(["x"]), 422),
        (json!({ "content": "x".repeat(1024 * 1024), "type": "user" }), 413),
    ];
    for (body, status) in refused {
        let reply = runner.post(&body).await;
        assert_eq!(
            (reply.status, &reply.headers["content-type"]),
            (status, &"application/problem+json".parse().unwrap())
        );
    }
    let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status().as_u16();
    let as_json =
        |text: &'static str| runner.post_request().header("content-type", "application/json").body(text);
    assert_eq!(status(as_json("{broken")).await, 400);
    let form = runner.post_request().header("content-type", "text/plain");
    assert_eq!(status(form.body(r#"{"content":"x","type":"user"}"#)).await, 415);
    assert_eq!(status(runner.get_request("/nothing")).await, 404);
    assert_eq!(status(runner.get_request("/message")).await, 405);
    assert_eq!(runner.state().await["turns"], json!([]));
}

#[tokio::test]
async fn keystrokes_that_stop_no_run_have_no_effect() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.taken(&json!({ "content": "ls\r", "type": "raw" })).await;
    runner.escape().await;
    assert_eq!(runner.state().await["turns"], json!([]));
}

#[tokio::test]
async fn the_socket_is_private_replaces_a_dead_one_and_goes_with_its_runner() {
    let workspace = Workspace::new();
    workspace.start().await.kill().await;
    assert!(workspace.socket().exists());
    let runner = workspace.start().await;
    let mode = std::fs::metadata(workspace.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut second = workspace.command(&["agent"]);
    let second = second.stderr(std::process::Stdio::piped()).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(said.contains("another runner uses "), "{said}");
    assert_eq!(runner.get("/status").await["status"], "stable");
    assert_eq!(runner.terminate().await, Some(0));
    assert!(!workspace.socket().exists());
}

#[tokio::test]
async fn on_a_port_foreign_pages_are_refused() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let workspace = Workspace::new();
    let runner = workspace.start_on_port(free).await;
    let origin = async |origin: &str| {
        let body = json!({ "content": "say x", "type": "user", "task_id": "t" });
        let request = runner.post_request().header("origin", origin).json(&body);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(origin("http://evil.example").await, 403);
    assert_eq!(runner.state().await["turns"], json!([]));
    assert_eq!(origin("http://localhost:3000").await, 200);
}

/// The schemas of a document without prose, where `ours` may have more properties than the original.
fn differences(original: &Value, ours: &Value) -> Vec<String> {
    let schemas = original["components"]["schemas"].as_object().unwrap();
    let differs = |name: &String| {
        let (theirs, ours) = (&schemas[name], &ours["components"]["schemas"][name]);
        let properties = |schema: &Value| -> Vec<String> {
            schema["properties"].as_object().map(|known| known.keys().cloned().collect()).unwrap_or_default()
        };
        let has_all =
            properties(theirs).iter().all(|key| properties(ours).contains(key) || is_optional(theirs, key));
        let is_same = ["type", "enum", "required"].iter().all(|key| theirs[key] == ours[key]);
        !(has_all && is_same)
    };
    schemas.keys().filter(|name| differs(name)).cloned().collect()
}

/// What is never there need not be described.
fn is_optional(schema: &Value, key: &str) -> bool {
    let required = schema["required"].as_array();
    !required.is_some_and(|required| required.contains(&json!(key)))
}

#[tokio::test]
async fn the_document_describes_the_same_requests_and_answers_as_the_original() {
    let original: Value = serde_json::from_str(include_str!("../../fixtures/agentapi/openapi.json")).unwrap();
    let original = &original["openapi"];
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    let ours = runner.get("/openapi.json").await;
    for (path, methods) in original["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert_eq!(
                ours["paths"][path][method]["operationId"], operation["operationId"],
                "{method} {path}"
            );
        }
    }
    assert_eq!(differences(original, &ours), Vec::<String>::new());
    let status = runner.get("/status").await;
    let schema =
        json!({ "$ref": "#/components/schemas/StatusResponseBody", "components": ours["components"] });
    assert!(jsonschema::is_valid(&schema, &status), "{status}");
}
