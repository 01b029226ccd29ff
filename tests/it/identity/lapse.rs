//! A wait ends with the token of its caller: revoked, expired, or dead with its agent, on every surface.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use fleet_mcp::app::agents::{WaitAgents, WaitResult};
use fleet_mcp::app::caller::{Caller, Surface};
use fleet_mcp::app::error::Error;
use fleet_mcp::app::tokens::CreateToken;
use fleet_mcp::domain::access::AllowedProjects;
use fleet_mcp::domain::agent::{AgentStatus, Until};
use fleet_mcp::domain::role::RoleKind;
use fleet_mcp::domain::token::Refusal;
use reqwest::Method;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{Pace, Program, Reply, RunningFleet, Scene, Up, eventually, operator};

/// Nothing here waits that long, unless a wait goes on that should have ended.
const DEADLINE: Duration = Duration::from_secs(30);
/// A call that has not ended by then is waiting.
const MOMENT: Duration = Duration::from_secs(2);

fn request(kind: Option<RoleKind>, agent: Option<&str>, expires_at: Option<DateTime<Utc>>) -> CreateToken {
    CreateToken {
        kind,
        name: Some("waiter".to_owned()),
        role: None,
        agent: agent.map(str::to_owned),
        projects: AllowedProjects::All,
        expires_at,
    }
}

/// The caller of a fresh token, and the token's id.
async fn caller(running: &RunningFleet, request: CreateToken) -> (Caller, String) {
    let minted = running.fleet.token_create(&operator(), request).await.unwrap();
    let text = SecretString::from(minted.reveal());
    let principal = running.fleet.token_principal(&text).await.unwrap().unwrap();
    (Caller { principal, surface: Surface::Rest, directory: None }, minted.info.token.id.to_string())
}

fn waiting(running: &RunningFleet, caller: Caller, names: &[&str]) -> JoinHandle<Result<WaitResult, Error>> {
    let fleet = running.fleet.clone();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let request = WaitAgents { names, until: Until::AnyChange, timeout: DEADLINE * 2, cursor: None };
    tokio::spawn(async move { fleet.agent_wait(&caller, request).await })
}

async fn refusal(wait: JoinHandle<Result<WaitResult, Error>>) -> Refusal {
    let ended = tokio::time::timeout(DEADLINE, wait).await.expect("the wait ends").unwrap();
    match ended {
        Err(Error::TokenRefused(refusal)) => refusal,
        other => panic!("the wait ended otherwise: {other:?}"),
    }
}

#[tokio::test]
async fn a_wait_ends_when_its_token_is_revoked() {
    let Scene { coder: _coder, running } = Scene::new(Pace::Instant).await;
    let (waiter, id) = caller(&running, request(Some(RoleKind::Manager), None, None)).await;
    let wait = waiting(&running, waiter, &[]);
    eventually("it waits", async || running.fleet.test_n_waits() == 1).await;
    running.fleet.token_revoke(&operator(), &id).await.unwrap();
    assert_eq!(refusal(wait).await, Refusal::Revoked);
}

#[tokio::test]
async fn a_wait_ends_when_its_token_expires() {
    let Scene { coder: _coder, running } = Scene::new(Pace::Instant).await;
    let soon = Utc::now() + TimeDelta::seconds(5);
    let (waiter, _) = caller(&running, request(Some(RoleKind::Manager), None, Some(soon))).await;
    assert_eq!(refusal(waiting(&running, waiter, &[])).await, Refusal::Expired);
}

#[tokio::test]
async fn a_wait_of_an_agent_ends_when_the_agent_is_stopped() {
    let Scene { coder: _coder, running } = Scene::new(Pace::Instant).await;
    for name in ["heron", "otter"] {
        running.create(name).await.unwrap();
        running.becomes(name, AgentStatus::Idle).await;
    }
    let (waiter, _) = caller(&running, request(None, Some("heron"), None)).await;
    let wait = waiting(&running, waiter, &["otter"]);
    eventually("it waits", async || running.fleet.test_n_waits() == 1).await;
    running.stop_agent("heron").await.unwrap();
    assert_eq!(refusal(wait).await, Refusal::AgentStopped);
}

async fn minted(up: &Up) -> (String, String) {
    let made = up.post("/api/v1/tokens", &json!({ "kind": "manager", "name": "waiter" })).await;
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// The answer to a call that waits until its token is revoked.
async fn revoked_meanwhile(up: &Up, id: &str, call: impl Future<Output = Reply>) -> Reply {
    tokio::pin!(call);
    assert!(tokio::time::timeout(MOMENT, &mut call).await.is_err(), "it waits");
    let path = format!("/api/v1/tokens/{id}");
    assert_eq!(up.call_as(&up.operator_token(), Method::DELETE, &path, &Value::Null).await.status, 200);
    tokio::time::timeout(DEADLINE, call).await.expect("the call ends")
}

#[tokio::test]
async fn a_caller_that_waits_over_rest_is_told_that_its_token_was_revoked() {
    let up = Up::start(&Program::without_coder()).await;
    let (id, token) = minted(&up).await;
    let arguments = json!({ "timeout_seconds": 45 });
    let call = up.call_as(&token, Method::POST, "/api/v1/wait", &arguments);
    let reply = revoked_meanwhile(&up, &id, call).await;
    let told = json!({
        "code": "UNAUTHENTICATED",
        "error": "invalid_token",
        "message": "the token was revoked",
        "retryable": false,
        "next_action": "Ask an operator for a new token ('fleet-mcp token create').",
        "instance_id": null,
        "tool_name": "wait_for_agents",
        "details": {}
    });
    let challenge = reply.headers["www-authenticate"].to_str().unwrap().to_owned();
    assert_eq!((reply.status, reply.body, &*challenge), (401, told, r#"Bearer error="invalid_token""#));
}

#[tokio::test]
async fn a_caller_that_waits_over_mcp_is_told_that_its_token_was_revoked() {
    let up = Up::start(&Program::without_coder()).await;
    let (id, token) = minted(&up).await;
    let arguments = json!({ "timeout_seconds": 45 });
    let call = up.tool_reply_as(&token, "wait_for_agents", &arguments);
    let reply = revoked_meanwhile(&up, &id, call).await;
    let text = reply.body.as_str().expect("events").to_owned();
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
    let answer: Value = serde_json::from_str(last).unwrap();
    let body: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&answer["result"]["isError"], &body["code"]), (&json!(true), &json!("UNAUTHENTICATED")));
}

#[tokio::test]
async fn a_stream_of_events_ends_when_its_token_is_revoked() {
    let up = Up::start(&Program::without_coder()).await;
    let (id, token) = minted(&up).await;
    let stream = up.get_as(&token, "/api/v1/events");
    let reply = revoked_meanwhile(&up, &id, stream).await;
    assert_eq!(reply.status, 200, "the stream was open and has ended");
}
