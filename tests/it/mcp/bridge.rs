//! The bridge between stdio and HTTP: several calls at once, taking back, trouble and recovery.

use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::mcp::bridge::ServerLocation;
use fleet_mcp::mcp::tools::Toolsets;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::assert_snapshot;
use super::client::{Era, Stdio};
use super::server::{McpServer, serve};
use crate::harness::{Pace, Scene};

const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

#[tokio::test]
async fn a_slow_call_holds_up_no_other() {
    let server = McpServer::start(Pace::Instant).await;
    for era in ERAS {
        let mut client = Stdio::start(&server.url, "manager", era).open().await;
        let slow = client.begin("wait_for_agents", json!({ "timeout_seconds": 45 })).await;
        let quick = client.begin("fleet_status", json!({})).await;
        assert_eq!(client.next().await["id"], quick);
        let name = format!("news-{}", era.version());
        server.scene.running.create(&name).await.unwrap();
        assert_eq!(client.next().await["id"], slow);
        assert_eq!(client.finish().await, Vec::<Value>::new());
        // An agent that still moves would end the next wait before its time.
        server.scene.running.becomes(&name, AgentStatus::Idle).await;
    }
}

#[tokio::test]
async fn a_call_taken_back_gets_no_answer_and_the_bridge_ends() {
    let server = McpServer::start(Pace::Instant).await;
    for era in ERAS {
        let mut client = Stdio::start(&server.url, "manager", era).open().await;
        let slow = client.begin("wait_for_agents", json!({ "timeout_seconds": 45 })).await;
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": slow } });
        client.send(&cancel).await;
        client.call("fleet_status", json!({})).await;
        assert_eq!(client.finish().await, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn call_before_the_end_of_input_is_still_answered() {
    let server = McpServer::start(Pace::Instant).await;
    let mut client = Stdio::start(&server.url, "manager", Era::Stateless).open().await;
    let asked = client.begin("wait_for_agents", json!({ "timeout_seconds": 1 })).await;
    let rest = client.finish().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(
        (&rest[0]["id"], &rest[0]["result"]["structuredContent"]["timed_out"]),
        (&json!(asked), &json!(true))
    );
}

#[tokio::test]
async fn progress_passes_through() {
    let server = McpServer::start(Pace::Instant).await;
    let mut client = Stdio::start(&server.url, "manager", Era::Sessions).open().await;
    let params = json!({
        "name": "wait_for_agents",
        "arguments": { "timeout_seconds": 1 },
        "_meta": { "progressToken": 5 },
    });
    client.send(&Era::Sessions.request(1, "tools/call", params)).await;
    assert_eq!(client.next().await["method"], "notifications/progress");
    assert!(client.finish().await.pop().unwrap()["result"].is_object());
}

#[tokio::test]
async fn trouble_is_told_with_the_next_action_and_passes() {
    let scene = Scene::new(Pace::Instant).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/mcp");
    let mut client = Stdio::start(&url, "manager", Era::Stateless);
    let mut told = json!({});
    client.begin("fleet_status", json!({})).await;
    told["server_away"] = client.next().await;
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    client.send_line("this is not JSON").await;
    told["not_json"] = client.next().await;
    client.send_line("[]").await;
    told["not_a_message"] = client.next().await;
    client.send_line("").await;
    let listener = TcpListener::bind(address).await.unwrap();
    let _serving = serve(listener, scene.running.fleet.clone(), Toolsets::all());
    assert!(client.call("fleet_status", json!({})).await["counts"].is_object());
    assert_eq!(client.finish().await, Vec::<Value>::new());
    let mut stranger = Stdio::start(&url, "nobody", Era::Stateless);
    stranger.begin("fleet_status", json!({})).await;
    told["token_refused"] = stranger.next().await;
    assert_snapshot("bridge_trouble", &told);
}

#[tokio::test]
async fn a_server_that_goes_down_in_the_middle_of_a_call_leaves_no_call_unanswered() {
    let scene = Scene::new(Pace::Instant).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = serve(listener, scene.running.fleet.clone(), Toolsets::all());
    let mut client = Stdio::start(&url, "manager", Era::Sessions).open().await;
    let params = json!({ "name": "wait_for_agents", "arguments": {}, "_meta": { "progressToken": 1 } });
    client.send(&Era::Sessions.request(9, "tools/call", params)).await;
    assert_eq!(client.next().await["method"], "notifications/progress");
    drop(serving);
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32000)));
}

#[tokio::test]
async fn a_call_made_while_the_server_is_restarted_waits_and_goes_where_the_server_then_is() {
    let server = McpServer::start(Pace::Instant).await;
    // A port that was in use a moment ago.
    let old = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let old = format!("http://{old}/mcp");
    let moved = ServerLocation::At(server.url.parse().unwrap());
    let looks = vec![ServerLocation::Changing, ServerLocation::At(old.parse().unwrap()), moved];
    let mut client = Stdio::start_with(&old, "manager", Era::Stateless, looks);
    assert!(client.call("fleet_status", json!({})).await["counts"].is_object());
    assert!(client.call("fleet_status", json!({})).await["counts"].is_object());
    assert_eq!(client.finish().await, Vec::<Value>::new());
}
