//! Every tool's result, whole, and within the schema the tool declares for it.

use fleet_mcp::domain::agent::AgentStatus;
use serde_json::{Value, json};

use super::assert_snapshot;
use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::{AgentScript, Pace, Scene, eventually};

/// One good call of each tool, in an order in which each finds what it needs.
fn calls() -> Vec<(&'static str, Value)> {
    let spec = "# Objective\nFix the login bug\n\n# Context\nIt is in `auth.rs`\n";
    vec![
        ("list_agent_projects", json!({})),
        ("list_agent_roles", json!({ "project": "Setup" })),
        ("list_roles", json!({})),
        (
            "start_squad_members",
            json!({ "members": [{ "roleId": "Coder", "task": "x", "agent_name": "nobody" }] }),
        ),
        ("squad_status", json!({})),
        ("create_agent", json!({ "project": "setup", "spec": spec, "name": "one", "wait_seconds": 45 })),
        (
            "set_agent_metadata",
            json!({ "agent_name": "One", "key": "fleet_mcp_branch", "value": "fix-login" }),
        ),
        ("list_agents", json!({ "project_filter": "setup", "page_size": 5 })),
        ("show_agent", json!({ "agent_name": "ONE" })),
        ("show_agent_task_history", json!({ "agent_name": "one" })),
        ("wait_for_agents", json!({ "agent_names": ["one"], "until": "idle", "timeout_seconds": 45 })),
        ("fleet_status", json!({})),
        ("start_agent_task", json!({ "agent_name": "one", "task_description": "Add a test" })),
        ("cancel_agent_task", json!({ "agent_name": "one" })),
        ("show_agent_log", json!({ "agent_name": "one" })),
        ("start_agent", json!({ "agent_name": "one" })),
        ("list_operations", json!({ "agent_filter": "ONE", "include_ended": true })),
        // The id is that of an operation which waits behind another one.
        ("cancel_operation", json!({ "operation_id": WAITING, "wait_seconds": 45 })),
        ("restart_agent", json!({ "agent_name": "one", "wait_seconds": 45 })),
        ("stop_agent", json!({ "agent_name": "one", "wait_seconds": 45 })),
        ("delete_agent", json!({ "agent_name": "one", "wait_seconds": 45 })),
    ]
}

const WAITING: &str = "an operation that waits";

/// A stop that waits behind a restart which does not get on.
async fn waiting_stop(scene: &Scene) -> Value {
    scene.coder.set_pace(Pace::Held);
    scene.running.restart_agent("one").await.unwrap();
    let stop = scene.running.stop_agent("one").await.unwrap().operation.unwrap();
    json!({ "operation_id": stop.to_string(), "wait_seconds": 45 })
}

/// Lets everything get on again.
async fn settled(scene: &Scene) {
    scene.coder.set_pace(Pace::PerRead);
    eventually("no operation is open", async || {
        scene.running.store.operations_open().await.unwrap().is_empty()
    })
    .await;
    scene.running.becomes("one", AgentStatus::Idle).await;
    scene.coder.set_pace(Pace::Instant);
}

#[tokio::test]
async fn every_tool_answers_as_it_declares() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.coder.set_script_of_new_agents(AgentScript::Work);
    let client = Http::new(&server.url, "operator", Era::Stateless);
    let listed = client.ask("tools/list", json!({})).await["result"]["tools"].as_array().unwrap().clone();
    let mut called: Vec<&str> = calls().iter().map(|(tool, _)| *tool).collect();
    let mut declared: Vec<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    called.sort_unstable();
    declared.sort_unstable();
    assert_eq!(called, declared);
    for (name, arguments) in calls() {
        let tool = listed.iter().find(|tool| tool["name"] == name).unwrap();
        let is_waiting = arguments["operation_id"] == WAITING;
        let arguments = if is_waiting { waiting_stop(&server.scene).await } else { arguments };
        jsonschema::validate(&tool["inputSchema"], &arguments).unwrap();
        let result = client.call(name, arguments).await;
        jsonschema::validate(&tool["outputSchema"], &result)
            .unwrap_or_else(|error| panic!("{name}: {error}: {result:#}"));
        assert_snapshot(&format!("result_{name}"), &result);
        match name {
            "create_agent" => {
                server.scene.coder.agent_finishes("one", "The login works");
                server.scene.running.rests("one").await;
            }
            "start_agent_task" => server.scene.running.works("one").await,
            "cancel_operation" => settled(&server.scene).await,
            _ => {}
        }
    }
}

#[tokio::test]
async fn an_agent_reports_about_itself() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.running.create("one").await.unwrap();
    server.scene.running.rests("one").await;
    let client = Http::new(&server.url, "agent-one", Era::Stateless);
    let listed = client.ask("tools/list", json!({})).await["result"]["tools"].as_array().unwrap().clone();
    let tool = listed.iter().find(|tool| tool["name"] == "report_status").expect("it is offered to agents");
    let report = json!({ "state": "complete", "summary": "The login works", "question": "Shall I push?" });
    let result = client.call("report_status", report).await;
    jsonschema::validate(&tool["outputSchema"], &result).unwrap();
    assert_snapshot("result_report_status", &result);
}

#[tokio::test]
async fn a_list_of_busy_and_failed_agents_keeps_to_its_schema() {
    let server = McpServer::of(Scene::new(Pace::Instant).await, fleet_mcp::mcp::tools::Toolsets::all()).await;
    let coder = &server.scene.coder;
    coder.seed("worker", 3);
    coder.post_app_status("worker-1", "working", "Reading the code");
    coder.post_app_status("worker-2", "failure", "The tests do not build");
    coder.set_metadata("worker-3", "fleet_mcp_pull_request_url", "https://forge.test/pulls/3");
    let client = Http::new(&server.url, "manager", Era::Sessions);
    crate::harness::eventually("the reports are seen", async || {
        let list = client.call("list_agents", json!({})).await;
        list["counts"]["busy"] == 1 && list["agents"][2]["pull_request_url"].is_string()
    })
    .await;
    let tools = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
    for name in ["list_agents", "fleet_status"] {
        let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        let result = client.call(name, json!({})).await;
        jsonschema::validate(&tool["outputSchema"], &result).unwrap();
        assert_snapshot(&format!("mixed_fleet_{name}"), &result);
    }
}
