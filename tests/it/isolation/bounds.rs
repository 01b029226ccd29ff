//! What an agent stores about itself through its own token: more than its share is refused, and what it had stays.

use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::harness::{Program, Up, eventually, runners_under};

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
    let message = "the metadata of agent 'mallory' has reached its limit: 100 keys, 65536 bytes in total";
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
    let message = "the task queue of agent 'mallory' is full";
    let next = "Call wait_for_agents until 'mallory' has ended some of its tasks, then call again.";
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
    let mut expected =
        vec![format!("{reason}; further refused calls of this token are not recorded in this minute")];
    expected.resize(100, (*reason).to_owned());
    assert_eq!(reasons, expected);
}

async fn opened(address: &str, request: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}

/// The status of the response, however long a loaded machine takes for it.
async fn status_of(connection: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    connection.read_exact(&mut head).await.unwrap();
    String::from_utf8_lossy(&head[9..]).parse().unwrap()
}

#[tokio::test]
async fn an_agent_with_sixteen_open_requests_is_refused_more_and_blocks_no_other_client() {
    let up = Up::start(&Program::without_coder().with_descriptors(160)).await;
    up.agent("mallory").await;
    let (token, address) = (up.token_of("mallory"), up.url.trim_start_matches("http://").to_owned());
    let events =
        format!("GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n");
    let mut streams = Vec::new();
    for _ in 0..40 {
        let mut stream = opened(&address, &events).await;
        let status = status_of(&mut stream).await;
        streams.push((stream, status));
    }
    let n_open = streams.iter().filter(|(_, status)| *status == 200).count();
    assert!((14..=16).contains(&n_open), "{n_open}");
    assert!(streams.iter().all(|(_, status)| matches!(status, 200 | 429)));
    let refused = up.get_as(&token, "/api/v1/agents").await;
    let told = json!([
        refused.body["code"],
        refused.body["retryable"],
        refused.body["message"],
        refused.body["next_action"]
    ]);
    let message = "this agent has 16 open requests, which is the maximum";
    let expected =
        json!(["RATE_LIMITED", true, message, "Wait until one of them has ended, then call again."]);
    assert_eq!((refused.status, told), (429, expected));
    assert_eq!(up.show("mallory").await["name"], "mallory");
    drop(streams);
    eventually("the agent is let in again", async || up.get_as(&token, "/api/v1/agents").await.status == 200)
        .await;
}

#[tokio::test]
async fn an_agent_that_sends_its_reports_slowly_blocks_no_other_client_of_the_embedded_coder() {
    let up = Up::start(&Program::without_coder().with_descriptors(160)).await;
    up.agent("mallory").await;
    let runner = runners_under(up.program.directory.path())[0];
    let environment = std::fs::read(format!("/proc/{runner}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let value =
        |name: &str| environment.split('\0').find_map(|variable| variable.strip_prefix(name)).unwrap();
    let (token, url) = (value("CODER_AGENT_TOKEN="), value("CODER_AGENT_URL="));
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let report = format!(
        "PATCH /api/v2/workspaceagents/me/app-status HTTP/1.1\r\nhost: {address}\r\n\
         coder-session-token: {token}\r\ncontent-type: application/json\r\ncontent-length: 16000\r\n\r\n{{"
    );
    let mut reports = Vec::new();
    for _ in 0..40 {
        reports.push(opened(address, &report).await);
    }
    // At most sixteen stay open; each of the others gets its refusal at once.
    let mut statuses: FuturesUnordered<_> = reports.iter_mut().map(status_of).collect();
    for n_refused in 0..24 {
        let status = timeout(Duration::from_secs(60), statuses.next()).await;
        assert_eq!(status, Ok(Some(429)), "{n_refused} are refused");
    }
    while let Some(Some(status)) = statuses.next().now_or_never() {
        assert_eq!(status, 429);
    }
    drop(statuses);
    // The server itself is a client of the embedded Coder.
    assert_eq!(up.exec("mallory", "echo served").await.stdout.as_ref(), b"served\n");
}
