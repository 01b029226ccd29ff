//! Calls that take their time: progress, several at once, and clients that do not stay for the answer.

use fleet_mcp::domain::agent::AgentStatus;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::client::{Era, Http, Rmcp};
use super::server::McpServer;
use crate::harness::{Pace, error_of, eventually};

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

#[tokio::test]
async fn a_waiting_client_that_asked_for_it_hears_progress() {
    let server = McpServer::start(Pace::Instant).await;
    for era in ERAS {
        let client = Http::new(&server.url, "manager", era);
        let params = json!({
            "name": "wait_for_agents",
            "arguments": { "timeout_seconds": 1 },
            "_meta": { "progressToken": "p1" },
        });
        let mut messages = client.messages("tools/call", params).await;
        let answer = messages.pop_back().unwrap();
        assert_eq!(answer["result"]["structuredContent"]["timed_out"], true);
        let first = messages.pop_front().expect("progress comes before the answer");
        assert_eq!(first["method"], "notifications/progress");
        let told = &first["params"];
        assert_eq!((&told["progressToken"], &told["total"]), (&json!("p1"), &json!(1.0)), "{first}");
        assert_eq!(told["message"], "waiting: 0 of at most 1 s");
    }
}

#[tokio::test]
async fn a_client_that_asked_for_no_progress_gets_the_answer_alone() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    let params = json!({ "name": "wait_for_agents", "arguments": { "timeout_seconds": 1 } });
    assert_eq!(client.messages("tools/call", params).await.len(), 1);
}

#[tokio::test]
async fn an_agent_is_made_though_the_client_that_asked_hung_up() {
    let server = McpServer::start(Pace::Held).await;
    for era in ERAS {
        let name = format!("left-{}", era.version());
        let arguments = json!({ "project": "setup", "spec": "x", "name": name, "wait_seconds": 45 });
        let client = Http::new(&server.url, "manager", era);
        let asked = tokio::spawn(async move { client.call("create_agent", arguments).await });
        eventually("the call has arrived", async || server.scene.running.status(&name).is_some()).await;
        asked.abort();
        eventually("Coder has heard of it", async || {
            server.scene.coder.workspaces().iter().any(|workspace| workspace.name == name)
        })
        .await;
        server.scene.coder.settle_all();
        server.scene.running.becomes(&name, AgentStatus::Idle).await;
    }
}

#[tokio::test]
async fn aborted_wait_does_not_affect_other_waits() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    let leaving = client.clone();
    let waiting = tokio::spawn(async move { leaving.call("wait_for_agents", json!({})).await });
    let other = client.clone();
    let staying = tokio::spawn(async move { other.call("wait_for_agents", json!({})).await });
    assert!(client.call("fleet_status", json!({})).await["counts"].is_object());
    waiting.abort();
    server.scene.running.create("news").await.unwrap();
    let told = staying.await.unwrap();
    assert_eq!((&told["changed"][0]["name"], &told["timed_out"]), (&json!("news"), &json!(false)));
}

#[tokio::test]
async fn many_clients_at_once_each_get_their_own_answer() {
    let server = McpServer::start(Pace::Instant).await;
    let clients = (0..20).map(async |n| {
        let era = ERAS[n % ERAS.len()];
        let client = Rmcp::connect(&server.url, "manager", era).await;
        let name = format!("mine-{n}");
        let arguments = json!({ "project": "setup", "spec": name, "name": name });
        client.call("create_agent", arguments).await;
        let shown = client.call("show_agent", json!({ "agent_name": name })).await;
        (shown["agent"]["name"].clone(), shown["agent"]["spec"].clone())
    });
    let found = join_all(clients).await;
    let expected: Vec<(Value, Value)> =
        (0..20).map(|n| (json!(format!("mine-{n}")), json!(format!("mine-{n}")))).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_same_key_from_many_clients_makes_one_agent() {
    let server = McpServer::start(Pace::Instant).await;
    let arguments = json!({ "project": "setup", "spec": "once", "request_key": "once" });
    let calls = (0..10).map(|n| {
        let client = Http::new(&server.url, "manager", ERAS[n % ERAS.len()]);
        let arguments = arguments.clone();
        async move { client.call("create_agent", arguments).await["operation_id"].clone() }
    });
    let operations = join_all(calls).await;
    assert!(operations[0].is_string() && operations.iter().all(|id| *id == operations[0]), "{operations:?}");
    assert_eq!(server.scene.coder.workspaces().len(), 1);
}

#[tokio::test]
async fn more_changes_than_one_answer_carries_come_with_the_next_calls() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    let mut cursor = client.call("wait_for_agents", json!({ "timeout_seconds": 1 })).await["cursor"].clone();
    server.scene.coder.seed("many", 100);
    eventually("all are seen", async || {
        client.call("list_agents", json!({ "page_size": 1 })).await["total_count"] == 100
    })
    .await;
    let mut seen = std::collections::BTreeSet::new();
    let mut sizes = Vec::new();
    while seen.len() < 100 {
        let told = client.call("wait_for_agents", json!({ "cursor": cursor })).await;
        let changed = told["changed"].as_array().unwrap();
        sizes.push(changed.len());
        seen.extend(changed.iter().map(|agent| agent["name"].as_str().unwrap().to_owned()));
        cursor = told["cursor"].clone();
    }
    assert!(sizes.iter().all(|size| *size <= 40), "{sizes:?}");
}

#[tokio::test]
async fn a_wait_for_more_agents_than_one_answer_holds_is_refused() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.running.create("one").await.unwrap();
    let client = Http::new(&server.url, "manager", Era::Stateless);
    let tools = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
    let tools = tools.as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "wait_for_agents").unwrap();
    assert_eq!(tool["inputSchema"]["properties"]["agent_names"]["maxItems"], 100);
    let arguments = json!({ "agent_names": vec!["one"; 101], "until": "idle" });
    let call = json!({ "name": "wait_for_agents", "arguments": arguments });
    let error = error_of(&client.ask("tools/call", call).await["result"]);
    let message = json!("101 agents are named; at most 100 are allowed");
    assert_eq!((&error["code"], &error["message"]), (&json!("INVALID_INPUT"), &message));
}
