//! Long answers: within what clients show whole, and readable to the end.

use serde_json::{Value, json};

use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::{Pace, eventually};

const ANSWER_CHARS: usize = 24_000;
const LIST_CHARS: usize = 40_000;

fn n_chars(value: &Value) -> usize {
    value.to_string().chars().count()
}

/// A spec without any repetition, so that a piece lost or told twice shows.
fn long_spec(n_lines: usize) -> String {
    let lines = (0..n_lines).map(|n| format!("{n}. Mend the “{n}th” thing \\ and test it\n"));
    format!("# Objective\n{}", lines.collect::<String>())
}

/// Follows `next` to the end and joins the pieces of one text.
async fn read_on(client: &Http, tool: &str, mut arguments: Value, pointer: &str) -> (String, usize) {
    let (mut text, mut longest) = (String::new(), 0);
    loop {
        let told = client.call(tool, arguments).await;
        text.push_str(told.pointer(pointer).unwrap().as_str().unwrap());
        longest = longest.max(n_chars(&told));
        match &told["next"] {
            Value::Null => return (text, longest),
            next => arguments = next.clone(),
        }
    }
}

#[tokio::test]
async fn a_page_of_a_hundred_agents_with_long_texts_fits() {
    let server = McpServer::start(Pace::Instant).await;
    let coder = &server.scene.coder;
    coder.seed("an-agent-with-quite-a-long-na", 99);
    for n in 1..100 {
        let name = format!("an-agent-with-quite-a-long-na-{n}");
        coder.post_app_status(&name, "working", &"Reading every file there is. ".repeat(5));
        let url = format!("https://forge.test/a-long-group-name/a-long-project-name/pulls/{n}");
        coder.set_metadata(&name, "fleet_mcp_pull_request_url", &url);
        coder.set_metadata(&name, "fleet_mcp_pull_request_status", "changes_requested");
        coder.set_metadata(&name, "fleet_mcp_pull_request_check_status", "failing");
    }
    let long = json!({ "project": "setup", "spec": long_spec(100), "name": "long" });
    let client = Http::new(&server.url, "manager", Era::Stateless);
    client.call("create_agent", long).await;
    let page = json!({ "page_size": 100 });
    eventually("all are busy", async || {
        client.call("list_agents", page.clone()).await["counts"]["busy"] == 99
    })
    .await;
    let told = client.call("list_agents", page).await;
    assert_eq!(told["agents"].as_array().unwrap().len(), 100);
    assert!(n_chars(&told) <= LIST_CHARS, "{} characters", n_chars(&told));
    let waited = client.call("wait_for_agents", json!({ "cursor": "0" })).await;
    assert!(n_chars(&waited) <= LIST_CHARS, "{} characters", n_chars(&waited));
    let names: Vec<&Value> = told["agents"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    let named = json!({ "agent_names": names, "until": "idle", "timeout_seconds": 1 });
    let waited = client.call("wait_for_agents", named).await;
    assert_eq!(waited["changed"].as_array().unwrap().len(), 100);
    assert!(n_chars(&waited) <= LIST_CHARS, "{} characters", n_chars(&waited));
}

#[tokio::test]
async fn a_long_spec_can_be_read_to_its_end() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Sessions);
    let spec = long_spec(2_000);
    let arguments = json!({ "project": "setup", "spec": spec, "name": "long" });
    let created = client.call("create_agent", arguments).await;
    assert!(n_chars(&created) <= 2_000, "{} characters", n_chars(&created));
    let (text, longest) =
        read_on(&client, "show_agent", json!({ "agent_name": "long" }), "/agent/spec").await;
    assert_eq!(text, spec);
    assert!(longest <= ANSWER_CHARS, "{longest} characters");
}

#[tokio::test]
async fn a_spec_that_fits_once_is_told_whole() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    let spec = long_spec(400);
    client.call("create_agent", json!({ "project": "setup", "spec": spec, "name": "long" })).await;
    let told = client.call("show_agent", json!({ "agent_name": "long" })).await;
    assert_eq!(told["agent"]["spec"], spec);
    assert_eq!((&told["truncated"], &told["next"]), (&json!(true), &Value::Null));
    assert!(n_chars(&told) <= ANSWER_CHARS, "{} characters", n_chars(&told));
}

#[tokio::test]
async fn a_long_history_can_be_read_to_its_end() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    let spec = long_spec(2_000);
    client.call("create_agent", json!({ "project": "setup", "spec": spec, "name": "long" })).await;
    let arguments = json!({ "agent_name": "long", "kind": "task", "page_size": 3 });
    let (text, longest) = read_on(&client, "show_agent_task_history", arguments, "/tasks/0/message").await;
    assert_eq!(text, spec);
    assert!(longest <= LIST_CHARS, "{longest} characters");
}

#[tokio::test]
async fn long_metadata_can_be_read_to_its_end() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    client.call("create_agent", json!({ "project": "setup", "spec": "x", "name": "long" })).await;
    let value = long_spec(150);
    // Together well beyond one answer, and within the 64 KiB that an agent may have.
    for n in 0..8 {
        let key = format!("fleet_mcp_note_{n}");
        let told = client
            .call("set_agent_metadata", json!({ "agent_name": "long", "key": key, "value": value }))
            .await;
        assert!(n_chars(&told) <= ANSWER_CHARS, "{} characters", n_chars(&told));
    }
    let arguments = json!({ "agent_name": "long" });
    let note = "/agent/metadata/fleet_mcp_note_7";
    let (text, longest) = read_on(&client, "show_agent", arguments, note).await;
    assert_eq!(text, value);
    assert!(longest <= ANSWER_CHARS, "{longest} characters");
}
