//! What answers hold: the agents that were waited for, a cursor to wait with, and each text as often as it is needed.

use fleet_mcp::domain::agent::AgentStatus;
use serde_json::{Value, json};

use super::Server;
use crate::harness::eventually;

/// Near the end of the long spec, so that no short form of it holds these words.
const MARKER: &str = "quartz vowed jigs nymph";

/// A spec of 3 kB with two of the four headings.
fn long_spec() -> String {
    let body = "Keep the public interface as it is and cover every branch by a test. ".repeat(42);
    format!("## Objective\n{body}\n## Deliverables\n{MARKER}\n")
}

fn names_and_statuses(waited: &Value) -> Vec<(&str, &str)> {
    let rows = waited["changed"].as_array().unwrap().iter();
    rows.map(|row| (row["name"].as_str().unwrap(), row["status"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_wait_for_what_is_so_already_returns_the_named_agents() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.agent("heron").await;
    for until in ["idle", "done"] {
        let input = json!({ "agent_names": ["OTTER", "otter"], "until": until, "timeout_seconds": 40 });
        let waited = server.post("/api/v1/wait", &input).await.body;
        assert_eq!(names_and_statuses(&waited), [("otter", "idle")], "{waited}");
        assert_eq!(waited["timed_out"], false);
    }
}

#[tokio::test]
async fn a_wait_for_more_agents_than_one_answer_holds_is_refused() {
    let server = Server::start().await;
    server.agent("otter").await;
    let wait = |n_names: usize| {
        let names = vec!["otter"; n_names];
        json!({ "agent_names": names, "until": "idle", "timeout_seconds": 40 })
    };
    let waited = server.post("/api/v1/wait", &wait(100)).await.body;
    assert_eq!(names_and_statuses(&waited), [("otter", "idle")], "{waited}");
    let refused = server.post("/api/v1/wait", &wait(101)).await;
    let told = (refused.status, &refused.body["code"], &refused.body["message"]);
    let message = json!("101 agents are named; at most 100 are allowed");
    assert_eq!(told, (400, &json!("INVALID_INPUT"), &message));
}

#[tokio::test]
async fn a_wait_that_times_out_returns_the_named_agents_as_they_are() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.scene.coder.post_app_status("otter", "working", "on it");
    server.scene.running.becomes("otter", AgentStatus::Busy).await;
    let input = json!({ "agent_names": ["otter"], "until": "done", "timeout_seconds": 1 });
    let waited = server.post("/api/v1/wait", &input).await.body;
    assert_eq!(names_and_statuses(&waited), [("otter", "busy")], "{waited}");
    assert_eq!(waited["timed_out"], true);
}

#[tokio::test]
async fn changes_return_a_cursor_that_brings_what_came_after_them() {
    let server = Server::start().await;
    let body = json!({ "project": "setup", "spec": "Fix it", "name": "otter", "wait_seconds": 45 });
    let created = server.post("/api/v1/agents", &body).await.body;
    server.scene.running.rests("otter").await;
    let task = json!({ "task_description": "Fix the other one", "when_busy": "queue" });
    let started = server.post("/api/v1/agents/otter/tasks", &task).await.body;
    let stopped = server.post("/api/v1/agents/otter/stop", &json!({})).await.body;
    for answer in [&created, &started, &stopped] {
        assert!(answer["cursor"].as_str().is_some_and(|cursor| cursor.parse::<i64>().is_ok()), "{answer}");
    }
    let input = json!({ "agent_names": ["otter"], "timeout_seconds": 40, "cursor": stopped["cursor"] });
    eventually("the stop is seen from the cursor on", async || {
        let waited = server.post("/api/v1/wait", &input).await.body;
        names_and_statuses(&waited) == [("otter", "stopped")]
    })
    .await;
}

#[tokio::test]
async fn answers_hold_a_long_spec_as_often_as_they_need_it() {
    let server = Server::start().await;
    let spec = long_spec();
    assert!(spec.len() > 2_900 && spec.len() < 3_200, "{}", spec.len());
    let body = json!({ "project": "setup", "spec": spec, "name": "otter", "wait_seconds": 45 });
    let mut short = vec![server.post("/api/v1/agents", &body).await.body];
    server.scene.running.rests("otter").await;
    let shown = server.get("/api/v1/agents/otter").await.body;
    short.push(server.get("/api/v1/agents").await.body);
    for change in ["stop", "start", "restart"] {
        let wait = json!({ "wait_seconds": 45 });
        short.push(server.post(&format!("/api/v1/agents/otter/{change}"), &wait).await.body);
    }
    for answer in &short {
        let text = answer.to_string();
        assert!(text.len() < 1_500, "{} characters: {text}", text.len());
        assert!(!text.contains(MARKER), "{text}");
    }
    let stopped = json!({ "task_description": format!("{MARKER} {MARKER}"), "when_busy": "queue" });
    let given = server.post("/api/v1/agents/otter/tasks", &stopped).await.body;
    assert_eq!(given["task"]["message"], given["task_description"], "short texts stay whole");
    let text = shown.to_string();
    assert_eq!(text.matches(MARKER).count(), 2, "{text}");
    let mut body = json!({ "project": "setup", "spec": spec, "name": "heron", "wait_seconds": 45 });
    body["pull_request_url"] = json!("https://forge.example/owner/app/pulls/7");
    server.post("/api/v1/agents", &body).await;
    server.scene.running.rests("heron").await;
    let with_pull_request = server.get("/api/v1/agents/heron").await.body.to_string();
    assert_eq!(with_pull_request.matches(MARKER).count(), 2, "{with_pull_request}");
    assert_eq!(shown["agent"]["spec"], spec);
    assert_eq!(shown["agent"]["metadata"]["fleet_mcp_agent_spec"], spec);
    assert!(text.len() < 2 * spec.len() + 2_000, "{} characters", text.len());
}

#[tokio::test]
async fn headings_that_a_spec_lacks_are_named_and_one_paragraph_needs_none() {
    let server = Server::start().await;
    let create = async |name: &str, spec: &str| {
        let body = json!({ "project": "setup", "spec": spec, "name": name, "wait_seconds": 45 });
        let created = server.post("/api/v1/agents", &body).await.body;
        let shown = server.get(&format!("/api/v1/agents/{name}")).await.body;
        (shown["agent"]["spec_sections"].clone(), created.get("warnings").cloned())
    };
    let (sections, warnings) = create("otter", &long_spec()).await;
    let expected = json!({ "found": ["Objective", "Deliverables"], "missing": ["Context", "Constraints"] });
    assert_eq!(sections, expected);
    assert_eq!(warnings.and_then(|warnings| warnings.as_array().map(Vec::len)), Some(1));
    let (sections, warnings) = create("heron", "Fix the login bug,\nand say how.").await;
    assert_eq!((sections, warnings), (json!({ "found": [], "missing": [] }), None));
}
