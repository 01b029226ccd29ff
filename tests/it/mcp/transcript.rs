//! What a manager agent does from first look to clean-up: the same over both eras and both transports.

use serde_json::{Value, json};

use super::assert_snapshot;
use super::client::{Era, Http, Rmcp, Stdio};
use super::server::McpServer;
use crate::harness::{AgentScript, Pace, Scene};

fn steps() -> Vec<(&'static str, Value)> {
    let spec = "# Objective\nAdd a health check\n";
    vec![
        ("fleet_status", json!({})),
        ("list_agent_projects", json!({})),
        ("list_agent_roles", json!({ "project": "dataone" })),
        ("create_agent", json!({ "project": "dataone", "task": spec, "name": "Gold", "wait_seconds": 45 })),
        ("wait_for_agents", json!({ "agent_names": ["gold"], "until": "idle" })),
        ("show_agent", json!({ "agent_name": "gold" })),
        ("show_agent_task_history", json!({ "agent_name": "gold" })),
        ("start_agent_task", json!({ "agent_name": "gold", "task_description": "Test it" })),
        ("start_agent_task", json!({ "agent_name": "gold", "task_description": "And this" })),
        ("cancel_agent_task", json!({ "agent_name": "gold" })),
        ("create_agent", json!({ "project": "dataone", "spec": spec, "name": "gold" })),
        ("stop_agent", json!({ "agent_name": "gold", "wait_seconds": 45 })),
        ("list_agents", json!({ "status_filter": "stopped" })),
        ("delete_agent", json!({ "agent_name": "gold", "wait_seconds": 45 })),
        ("show_agent", json!({ "agent_name": "gold" })),
    ]
}

/// Keeps the transcript of the calls made by `call` and compares it with the one recorded.
async fn assert_transcript(scene: &Scene, mut call: impl AsyncFnMut(&'static str, Value) -> Value) {
    let mut transcript = Vec::new();
    let mut is_made = false;
    scene.coder.set_script_of_new_agents(AgentScript::Work);
    for (tool, arguments) in steps() {
        let told = call(tool, arguments.clone()).await;
        transcript.push(json!({ "tool": tool, "arguments": arguments, "told": told }));
        match tool {
            "create_agent" if !is_made => {
                is_made = true;
                scene.coder.agent_finishes("Gold", "The check is there");
                scene.running.rests("gold").await;
            }
            "start_agent_task" => scene.running.works("gold").await,
            _ => {}
        }
    }
    assert_snapshot("transcript_of_a_manager", &transcript.into());
}

#[tokio::test]
async fn over_http_with_a_handshake() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Rmcp::connect(&server.url, "manager", Era::Sessions).await;
    assert_transcript(&server.scene, async |tool, arguments| client.call(tool, arguments).await).await;
}

#[tokio::test]
async fn over_http_with_discovery() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Rmcp::connect(&server.url, "manager", Era::Stateless).await;
    assert_transcript(&server.scene, async |tool, arguments| client.call(tool, arguments).await).await;
}

#[tokio::test]
async fn over_bare_http_requests() {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    assert_transcript(&server.scene, async |tool, arguments| client.call(tool, arguments).await).await;
}

#[tokio::test]
async fn over_stdio_with_a_handshake() {
    let server = McpServer::start(Pace::Instant).await;
    let mut client = Stdio::start(&server.url, "manager", Era::Sessions).open().await;
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_transcript(&server.scene, async |tool, arguments| client.call(tool, arguments).await).await;
    assert_eq!(client.finish().await, Vec::<Value>::new());
}

#[tokio::test]
async fn over_stdio_with_discovery() {
    let server = McpServer::start(Pace::Instant).await;
    let mut client = Stdio::start(&server.url, "manager", Era::Stateless).open().await;
    assert_transcript(&server.scene, async |tool, arguments| client.call(tool, arguments).await).await;
    assert_eq!(client.finish().await, Vec::<Value>::new());
}
