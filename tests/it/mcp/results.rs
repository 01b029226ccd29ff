//! Every tool's result, whole, and within the schema the tool declares for it.

use serde_json::{Value, json};

use super::assert_snapshot;
use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::{AgentScript, Pace, Scene};

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
        ("restart_agent", json!({ "agent_name": "one", "wait_seconds": 45 })),
        ("stop_agent", json!({ "agent_name": "one", "wait_seconds": 45 })),
        ("delete_agent", json!({ "agent_name": "one", "wait_seconds": 45 })),
    ]
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
