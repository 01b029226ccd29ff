//! What answers of tools hold: the agents that were waited for, a cursor, the spec once, and what agents have used.

use fleet_mcp::domain::agent::AgentStatus;
use serde_json::{Value, json};

use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::{Pace, eventually};

async fn with_agent() -> (McpServer, Http) {
    let server = McpServer::start(Pace::Instant).await;
    let client = Http::new(&server.url, "manager", Era::Stateless);
    client.call("create_agent", json!({ "project": "setup", "spec": "Fix it", "name": "otter" })).await;
    server.scene.running.rests("otter").await;
    (server, client)
}

fn rows(waited: &Value) -> (Vec<(&str, &str)>, &Value) {
    let changed = waited["changed"].as_array().unwrap().iter();
    let rows = changed.map(|row| (row["name"].as_str().unwrap(), row["status"].as_str().unwrap()));
    (rows.collect(), &waited["timed_out"])
}

#[tokio::test]
async fn a_wait_for_a_state_returns_the_named_agents_whether_it_is_reached_or_not() {
    let (server, client) = with_agent().await;
    let wait = |until: &str, seconds: u64| {
        let named = json!({ "agent_names": ["otter"], "until": until, "timeout_seconds": seconds });
        client.call("wait_for_agents", named)
    };
    for until in ["idle", "done"] {
        assert_eq!(rows(&wait(until, 40).await), (vec![("otter", "idle")], &json!(false)));
    }
    server.scene.coder.post_app_status("otter", "working", "on it");
    server.scene.running.becomes("otter", AgentStatus::Busy).await;
    for until in ["idle", "done"] {
        assert_eq!(rows(&wait(until, 1).await), (vec![("otter", "busy")], &json!(true)));
    }
}

#[tokio::test]
async fn a_wait_from_the_cursor_of_a_task_sees_what_becomes_of_it() {
    let (_server, client) = with_agent().await;
    let task = json!({ "agent_name": "otter", "task_description": "Fix the other one" });
    let cursor = client.call("start_agent_task", task).await["cursor"].clone();
    assert!(cursor.is_string(), "{cursor}");
    eventually("the task has begun or ended", async || {
        let waited =
            client.call("wait_for_agents", json!({ "agent_names": ["otter"], "cursor": cursor })).await;
        waited["changed"][0]["last_task"]["message"] == "Fix the other one"
    })
    .await;
}

#[tokio::test]
async fn as_many_agents_as_may_be_named_come_in_one_answer_whether_they_changed_or_not() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.coder.seed("otter", 100);
    let client = Http::new(&server.url, "manager", Era::Stateless);
    eventually("all rest", async || client.call("list_agents", json!({})).await["counts"]["idle"] == 100)
        .await;
    let names: Vec<String> = (1..=100).map(|number| format!("otter-{number}")).collect();
    let wait = async |cursor: Option<&Value>| {
        let waited = json!({ "agent_names": names, "until": "idle", "cursor": cursor });
        let waited = client.call("wait_for_agents", waited).await;
        (waited["changed"].as_array().unwrap().len(), waited["cursor"].clone())
    };
    let (n_rows, cursor) = wait(None).await;
    assert_eq!(n_rows, 100);
    assert_eq!(wait(Some(&cursor)).await, (100, cursor.clone()));
    assert_eq!(wait(Some(&json!("0"))).await, (100, cursor), "no change is left for the next call");
}

#[tokio::test]
async fn list_show_and_status_show_the_usage_of_an_agent() {
    let (server, client) = with_agent().await;
    let told = r#"{"input_tokens":1200,"output_tokens":34,"cost_usd":0.25}"#;
    server.scene.coder.set_metadata("otter", "fleet_mcp_usage", told);
    let spend = json!({ "usd": 0.25, "tokens": 1234 });
    eventually("the figures are counted", async || {
        client.call("fleet_status", json!({})).await["spend_today"] == spend
    })
    .await;
    let list = client.call("list_agents", json!({})).await;
    assert_eq!(list["agents"][0]["usage"], json!({ "cost_usd": 0.25, "tokens": 1234 }));
    let shown = client.call("show_agent", json!({ "agent_name": "otter" })).await;
    assert_eq!(
        (&shown["agent"]["usage"]["cost_usd"], &shown["agent"]["usage"]["tokens"]),
        (&json!(0.25), &json!(1234))
    );
}
