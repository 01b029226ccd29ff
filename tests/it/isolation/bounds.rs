//! What an agent stores about itself through its own token: more than its share is refused, and what it had stays.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

async fn set(up: &Up, key: &str, value: &str) -> (u16, Value) {
    let body = json!({ "key": key, "value": value });
    let path = "/api/v1/agents/mallory/metadata";
    let reply = up.call_as(&up.token_of("mallory"), Method::POST, path, &body).await;
    let body = match reply.status {
        200 => reply.body["metadata"][key].clone(),
        _ => json!([reply.body["code"], reply.body["message"], reply.body["next_action"]]),
    };
    (reply.status, body)
}

fn full() -> (u16, Value) {
    let message = "agent 'mallory' has as much metadata as it may have: 100 keys, 65536 bytes together";
    let next = "Call set_agent_metadata with an empty value for a key that 'mallory' no longer needs.";
    (409, json!(["CAPACITY_EXCEEDED", message, next]))
}

#[tokio::test]
async fn an_agent_keeps_a_hundred_keys_and_is_told_how_to_make_room() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("mallory").await;
    for number in 0..100 {
        let key = format!("fleet_mcp_key_{number}");
        assert_eq!(set(&up, &key, "x").await, (200, json!("x")), "{key}");
    }
    assert_eq!(set(&up, "fleet_mcp_one_more", "x").await, full());
    assert_eq!(set(&up, "fleet_mcp_key_7", "changed").await, (200, json!("changed")));
    assert_eq!(set(&up, "fleet_mcp_key_8", "").await, (200, Value::Null));
    assert_eq!(set(&up, "fleet_mcp_one_more", "x").await, (200, json!("x")));
    // What is counted by the fleet needs no room of the agent's.
    up.post("/api/v1/agents/mallory/tasks", &json!({ "task_description": "say more" })).await;
    eventually("the task is done", async || up.show("mallory").await["last_task"]["message"] == "say more")
        .await;
}

#[tokio::test]
async fn all_metadata_of_an_agent_together_has_sixty_four_kibibytes() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("mallory").await;
    let half = "x".repeat(32_000);
    assert_eq!(set(&up, "fleet_mcp_one", &half).await, (200, json!(half)));
    assert_eq!(set(&up, "fleet_mcp_two", &half).await, (200, json!(half)));
    assert_eq!(set(&up, "fleet_mcp_three", &half).await, full());
    assert_eq!(up.show("mallory").await["metadata"]["fleet_mcp_two"], json!(half));
}

#[tokio::test]
async fn a_hundred_tasks_wait_for_an_agent_and_no_more() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("mallory").await;
    let queue = async |text: &str| {
        let body = json!({ "task_description": text, "when_busy": "queue" });
        let path = "/api/v1/agents/mallory/tasks";
        up.call_as(&up.token_of("mallory"), Method::POST, path, &body).await
    };
    assert_eq!(queue("sleep 600").await.status, 201);
    eventually("it works", async || up.show("mallory").await["current_task"] == "sleep 600").await;
    for number in 0..100 {
        let reply = queue(&format!("say {number}")).await;
        assert_eq!(reply.status, 201, "{number}: {}", reply.body);
    }
    let refused = queue("say one more").await;
    let told = json!([refused.body["code"], refused.body["message"], refused.body["next_action"]]);
    let message = "too many tasks wait for agent 'mallory'";
    let next = "Call wait_for_agents until 'mallory' has done some of them.";
    assert_eq!((refused.status, told), (409, json!(["CAPACITY_EXCEEDED", message, next])));
    let pending = up.get("/api/v1/squads").await["pending_tasks"].as_array().unwrap().len();
    assert_eq!(pending, 100);
}

#[tokio::test]
async fn an_agent_that_is_refused_in_a_loop_leaves_a_hundred_rows_a_minute() {
    let up = Up::start(&Program::without_coder()).await;
    up.agent("mallory").await;
    let token = up.token_of("mallory");
    for _ in 0..130 {
        let reply = up.call_as(&token, Method::POST, "/api/v1/agents/x/stop", &json!({})).await;
        assert_eq!(reply.status, 403);
    }
    let trail = up.get("/api/v1/audit?page_size=100").await;
    let rows = trail["entries"].as_array().unwrap().iter();
    let denied = |row: &&Value| row["principal"] == "mallory" && row["outcome"] == "denied";
    let reasons: Vec<_> = rows.filter(denied).map(|row| row["reason"].as_str().unwrap()).collect();
    let reason = reasons.last().unwrap();
    let mut expected = vec![format!("{reason}; its further refused calls of this minute are not recorded")];
    expected.resize(100, (*reason).to_owned());
    assert_eq!(reasons, expected);
}
