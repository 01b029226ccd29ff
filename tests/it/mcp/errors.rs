//! Every kind of refusal as a client sees it.

use fleet_mcp::mcp::tools::Toolsets;
use serde_json::json;
use tokio::net::TcpListener;

use super::assert_snapshot;
use super::client::{Era, Http, Stdio};
use super::server::{McpServer, serve};
use crate::harness::{Pace, RunningFleet, eventually};

#[tokio::test]
async fn each_refusal_has_its_code_and_one_next_action() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.running.create("one").await.unwrap();
    server.scene.running.rests("one").await;
    let keyed = |spec: &str| json!({ "project": "setup", "spec": spec, "name": "two", "request_key": "k" });
    Http::new(&server.url, "manager", Era::Stateless).call("create_agent", keyed("first")).await;
    let cases = [
        ("an_unknown_agent", "manager", "show_agent", json!({ "agent_name": "nobody" })),
        ("an_unknown_project", "manager", "create_agent", json!({ "project": "nope", "spec": "x" })),
        (
            "an_unknown_role",
            "manager",
            "create_agent",
            json!({ "project": "setup", "spec": "x", "role": "king" }),
        ),
        (
            "a_name_taken",
            "manager",
            "create_agent",
            json!({ "project": "setup", "spec": "x", "name": "ONE" }),
        ),
        ("a_blank_spec", "manager", "create_agent", json!({ "project": "setup", "spec": " " })),
        ("a_page_out_of_range", "manager", "list_agents", json!({ "page_size": 101 })),
        ("a_wait_too_long", "manager", "wait_for_agents", json!({ "timeout_seconds": 46 })),
        ("an_offset_below_zero", "manager", "show_agent", json!({ "agent_name": "one", "text_offset": -1 })),
        ("a_key_used_otherwise", "manager", "create_agent", keyed("second")),
        ("a_tool_for_others", "coding", "create_agent", json!({ "anything": "at all" })),
        ("a_foreign_project", "narrow", "stop_agent", json!({ "agent_name": "one" })),
        ("no_task_to_cancel", "manager", "cancel_agent_task", json!({ "agent_name": "one" })),
        (
            "a_blank_task",
            "manager",
            "start_agent_task",
            json!({ "agent_name": "one", "task_description": " " }),
        ),
        (
            "a_word_for_busy",
            "manager",
            "start_agent_task",
            json!({ "agent_name": "one", "task_description": "x", "when_busy": "shout" }),
        ),
        ("a_report_of_a_person", "manager", "report_status", json!({ "state": "idle", "summary": "x" })),
        ("another_agents_log", "coding", "show_agent_log", json!({ "agent_name": "one" })),
        ("another_agents_details", "coding", "show_agent", json!({ "agent_name": "one" })),
    ];
    let mut told = json!({});
    for (case, token, tool, arguments) in cases {
        told[case] =
            Http::new(&server.url, token, Era::Stateless).call(tool, arguments).await["error"].clone();
    }
    assert_snapshot("refusals", &told);
}

/// The names of all tools that this caller is offered.
async fn offered(server: &McpServer, token: &str) -> Vec<String> {
    let answer = Http::new(&server.url, token, Era::Stateless).ask("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// How clients see an error is checked by each of their calls.
#[tokio::test]
async fn an_error_of_any_tool_is_text_alone_on_every_transport() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.running.create("one").await.unwrap();
    for token in ["operator", "agent-one"] {
        for tool in offered(&server, token).await {
            let wrong = json!({ "no_such_field": 1 });
            for era in [Era::Sessions, Era::Stateless] {
                let by_http = Http::new(&server.url, token, era).call(&tool, wrong.clone()).await;
                let mut stdio = Stdio::start(&server.url, token, era).open().await;
                let by_stdio = stdio.call(&tool, wrong.clone()).await;
                assert_eq!(by_http["error"]["code"], "INVALID_INPUT", "{tool}: {by_http}");
                assert_eq!(by_http, by_stdio, "{tool}");
            }
        }
    }
    let no_object = json!({ "name": "list_agents", "arguments": [] });
    let answer = Http::new(&server.url, "operator", Era::Stateless).ask("tools/call", no_object).await;
    assert_eq!(
        (&answer["result"]["isError"], answer["result"].get("structuredContent")),
        (&json!(true), None)
    );
}

#[tokio::test]
async fn a_fleet_that_never_saw_coder_says_so_instead_of_showing_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let running = RunningFleet::start(&away, "token").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let _serving = serve(listener, running.fleet.clone(), Toolsets::all());
    let client = Http::new(&url, "manager", Era::Sessions);
    eventually("the trouble is noticed", async || running.fleet.health().now().error.is_some()).await;
    for (tool, arguments) in [
        ("list_agents", json!({})),
        ("show_agent", json!({ "agent_name": "one" })),
        ("create_agent", json!({ "project": "setup", "spec": "x" })),
        ("list_agent_projects", json!({})),
    ] {
        let told = client.call(tool, arguments).await["error"].clone();
        assert_eq!(
            (&told["code"], &told["retryable"]),
            (&json!("CODER_UNAVAILABLE"), &json!(true)),
            "{tool}"
        );
    }
    assert_eq!(client.call("fleet_status", json!({})).await["coder"]["reachable"], false);
}

#[tokio::test]
async fn store_failure_is_internal_and_reveals_no_details() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.running.create("one").await.unwrap();
    server.scene.running.store.close().await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    let told = client.call("show_agent_task_history", json!({ "agent_name": "one" })).await;
    assert_snapshot("store_trouble", &told);
}
