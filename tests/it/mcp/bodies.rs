//! What a message may be made of, the same on `/mcp`, on REST and through the stdio bridge.

use reqwest::{Body, Method};
use serde_json::{Value, json};

use super::client::{Era, Stdio};
use super::server::McpServer;
use crate::harness::{Api, Pace, Program, Reply, Up, read};

const LARGEST: usize = 1 << 20;
const LARGEST_TASK: usize = 256 << 10;

struct Guarded {
    up: Up,
    api: Api,
}

impl Guarded {
    async fn start() -> Self {
        let up = Up::start(&Program::without_coder()).await;
        Self { api: Api::new(&up.url, ""), up }
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Reply {
        let request = self.api.bare(Method::POST, path).bearer_auth(self.up.operator_token());
        let request = request.header("Accept", "application/json, text/event-stream");
        read(request.header("Content-Type", "application/json").body(body)).await.unwrap()
    }

    /// Status, code, message and field of what refuses the same body on both surfaces.
    async fn refused(&self, body: &str) -> (u16, String, String, String) {
        let mut told = Vec::new();
        for path in ["/mcp", "/api/v1/wait"] {
            let reply = self.post(path, body.to_owned()).await;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let Reply { status, body, .. } = reply;
            told.push((status, text(&body["code"]), text(&body["message"]), text(&body["details"]["field"])));
        }
        assert_eq!(told[0], told[1], "both surfaces say the same");
        told.remove(0)
    }
}

fn refusal(status: u16, message: &str, field: &str) -> (u16, String, String, String) {
    (status, "INVALID_INPUT".to_owned(), message.to_owned(), field.to_owned())
}

/// A call whose arguments are nested so deep; the message around them has three levels of its own.
fn nested_call(levels: usize) -> String {
    let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"wait_for_agents","arguments":{{"x":{nested}}}}}}}"#
    )
}

#[tokio::test]
async fn invalid_too_deep_and_ambiguous_json_is_refused_alike_by_mcp_and_rest() {
    let server = Guarded::start().await;
    let expected =
        refusal(400, "the body is not JSON: EOF while parsing an object at line 1 column 1", "body");
    assert_eq!(server.refused("{").await, expected);
    let twice = r#"{"timeout_seconds":0,"agent_names":[],"timeout_seconds":45}"#;
    let expected = refusal(400, "the key 'timeout_seconds' is given twice", "timeout_seconds");
    assert_eq!(server.refused(twice).await, expected);
    let deep = r#"{"params":{"arguments":{"members":[{"task":"a","task":"b"}]}}}"#;
    let field = "params.arguments.members[0].task";
    assert_eq!(server.refused(deep).await, refusal(400, &format!("the key '{field}' is given twice"), field));
    let expected = refusal(400, "the body is nested deeper than 64 levels", "body");
    assert_eq!(server.refused(&nested_call(62)).await, expected);
}

#[tokio::test]
async fn json_that_is_no_message_of_the_protocol_is_refused_in_our_words() {
    let server = Guarded::start().await;
    for body in [
        "[]",
        "[1]",
        "{}",
        r#"{"a":1}"#,
        "7",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#,
    ] {
        let Reply { status, body: told, .. } = server.post("/mcp", body).await;
        let message = "the body is not one JSON-RPC message";
        let expected = (400, &json!("INVALID_INPUT"), &json!(message), &json!("body"));
        assert_eq!((status, &told["code"], &told["message"], &told["details"]["field"]), expected, "{body}");
    }
}

#[tokio::test]
async fn a_message_of_sixty_four_levels_is_read() {
    let server = Guarded::start().await;
    let reply = server.post("/mcp", nested_call(61)).await;
    let told = reply.body["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let body: Value = serde_json::from_str(told).unwrap_or_default();
    assert_eq!((reply.status, &body["details"]["field"]), (200, &json!("x")), "{}", reply.body);
}

#[tokio::test]
async fn a_body_that_grows_too_large_is_cut_on_both_surfaces() {
    let server = Guarded::start().await;
    for path in ["/mcp", "/api/v1/wait"] {
        let chunks = [vec![b' '; LARGEST], vec![b' ']].map(Ok::<_, std::io::Error>);
        let reply = server.post(path, Body::wrap_stream(futures_util::stream::iter(chunks))).await;
        let told = (reply.status, reply.body["code"].as_str(), reply.body["message"].as_str());
        let message = "the body is larger than 1048576 bytes";
        assert_eq!(told, (413, Some("INVALID_INPUT"), Some(message)), "{path}: {}", reply.body);
    }
}

#[tokio::test]
async fn specs_and_tasks_have_at_most_256_kib_on_both_surfaces() {
    let server = Guarded::start().await;
    let long = "x".repeat(LARGEST_TASK + 1);
    let create = json!({ "project": "setup", "spec": long });
    let task = json!({ "agent_name": "otter", "task_description": long });
    let squad = json!({ "members": [{ "roleId": "coder", "task": long }] });
    let calls = [
        ("create_agent", "/api/v1/agents", create, "spec"),
        ("start_agent_task", "/api/v1/agents/otter/tasks", task, "task_description"),
        ("start_squad_members", "/api/v1/squads", squad, "members[0].task"),
    ];
    for (tool, path, mut arguments, field) in calls {
        let told = server.up.tool_as(&server.up.operator_token(), tool, &arguments).await;
        let body: Value = serde_json::from_str(told["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&body["code"], &body["details"]["field"]), (&json!("INVALID_INPUT"), &json!(field)));
        arguments.as_object_mut().unwrap().remove("agent_name");
        let reply = server.post(path, arguments.to_string()).await;
        assert_eq!((reply.status, &reply.body["details"]["field"]), (400, &json!(field)), "{}", reply.body);
    }
}

#[tokio::test]
async fn the_bridge_refuses_the_same_lines_and_answers_under_the_id_of_the_call() {
    let server = McpServer::start(Pace::Instant).await;
    let mut client = Stdio::start(&server.url, "manager", Era::Stateless);
    let mut told = Vec::new();
    let twice = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","name":"b"}}"#;
    let two_ids = r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"tools/list"}"#;
    for line in [twice, two_ids, &nested_call(62), &"x".repeat(LARGEST + 1)] {
        client.send_line(line).await;
        let answer = client.next().await;
        let message = answer["error"]["message"].as_str().unwrap().to_owned();
        told.push((answer["id"].clone(), answer["error"]["code"].clone(), message));
    }
    let refusal = |id: Value, message: &str| (id, json!(-32600), message.to_owned());
    let expected = [
        refusal(json!(7), "the key 'params.name' is given twice. Send each key once."),
        refusal(Value::Null, "the key 'id' is given twice. Send each key once."),
        refusal(Value::Null, "the line is nested deeper than 64 levels. Send a message with less nesting."),
        refusal(Value::Null, "the line is longer than 1 MiB. Send a shorter message."),
    ];
    assert_eq!(told, expected);
    assert_eq!(client.finish().await, Vec::<Value>::new());
}
