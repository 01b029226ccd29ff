//! Every kind of failure as a caller sees it, always in the same body.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use fleet_mcp::domain::role::RoleKind;
use futures_util::{StreamExt, stream};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Body, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Server, assert_reply};
use crate::harness::{Pace, Reply, RunningFleet, Scene, read, stub};

const AGENTS: &str = "/api/v1/agents";
const TOO_LARGE: usize = 1024 * 1024 + 1;

async fn raw(request: RequestBuilder, kind: &str, body: impl Into<Body>) -> Reply {
    read(request.header(CONTENT_TYPE, kind).body(body)).await.unwrap()
}

fn spec() -> Value {
    json!({ "project": "setup", "spec": "## Objective\nFix the login bug", "name": "otter" })
}

/// The code and the field at fault.
fn fault(reply: &Reply) -> (u16, &str, &str) {
    let field = reply.body["details"]["field"].as_str().unwrap_or_default();
    (reply.status, reply.body["code"].as_str().unwrap(), field)
}

#[tokio::test]
async fn a_query_that_cannot_be_read_names_the_field() {
    let server = Server::start().await;
    assert_reply!("query_not_a_number", server.get("/api/v1/agents?page=two").await);
    let cases = [
        ("?colour=red", "colour"),
        ("?page=", "page"),
        ("?page=1.5", "page"),
        ("?page=1&page=2", "page"),
        ("?page=0", "page"),
        ("?page_size=101", "page_size"),
        ("?include_runs=yes", "include_runs"),
        ("?status_filter=sleepy", "status_filter"),
    ];
    for (query, field) in cases {
        let reply = server.get(&format!("{AGENTS}{query}")).await;
        assert_eq!(fault(&reply), (400, "INVALID_INPUT", field), "{query}");
    }
    let reply = server.get("/api/v1/status?verbose=true").await;
    assert_eq!(fault(&reply), (400, "INVALID_INPUT", "verbose"));
}

#[tokio::test]
async fn a_body_that_cannot_be_read_names_the_field() {
    let server = Server::start().await;
    let post = || server.request(Method::POST, AGENTS);
    assert_reply!("body_not_json", raw(post(), "application/json", "{\"project\":").await);
    assert_reply!("body_of_another_type", raw(post(), "text/plain", spec().to_string()).await);
    let cases = [
        (json!([1]), "body"),
        (json!(null), "project"),
        (json!({ "project": "setup" }), "spec"),
        (json!({ "project": "setup", "spec": 7 }), "spec"),
        (json!({ "project": "setup", "spec": "  " }), "spec"),
        (json!({ "project": "setup", "spec": "x", "colour": "red" }), "colour"),
        (json!({ "project": "setup", "spec": "x", "name": "not a name" }), "name"),
        (json!({ "project": "setup", "spec": "x", "wait_seconds": 46 }), "wait_seconds"),
    ];
    for (body, field) in cases {
        assert_eq!(fault(&server.post(AGENTS, &body).await), (400, "INVALID_INPUT", field), "{body}");
    }
}

#[tokio::test]
async fn json_may_name_its_charset() {
    let server = Server::start().await;
    let post = server.request(Method::POST, AGENTS);
    let reply = raw(post, "Application/JSON; charset=utf-8", spec().to_string()).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
}

#[tokio::test]
async fn arguments_in_the_wrong_place_are_refused_not_ignored() {
    let server = Server::start().await;
    server.agent("otter").await;
    let in_query = server.post("/api/v1/agents/otter/stop?wait_seconds=1", &json!({})).await;
    assert_eq!(fault(&in_query), (400, "INVALID_INPUT", "wait_seconds"));
    let body = json!({ "keep_work": false });
    let in_body = read(server.request(Method::DELETE, "/api/v1/agents/otter").json(&body)).await.unwrap();
    assert_eq!(fault(&in_body), (400, "INVALID_INPUT", "body"));
    let twice = server.post("/api/v1/agents/otter/stop", &json!({ "agent_name": "heron" })).await;
    assert_eq!(fault(&twice), (400, "INVALID_INPUT", "agent_name"));
    let unreadable = server.get("/api/v1/agents/%FF").await;
    assert_eq!(fault(&unreadable), (400, "INVALID_INPUT", "path"));
}

#[tokio::test]
async fn a_body_that_announces_itself_as_too_large_is_not_waited_for() {
    let server = Server::start().await;
    let head = format!("POST {AGENTS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {TOO_LARGE}\r\n");
    let answer = server.raw(&head).await;
    assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
}

#[tokio::test]
async fn a_body_that_grows_too_large_is_cut() {
    let server = Server::start().await;
    // The body never ends, so the answer can only come from its size.
    let chunks = stream::iter([vec![b' '; TOO_LARGE - 1], vec![b' ']]).map(Ok::<_, std::io::Error>);
    let body = Body::wrap_stream(chunks.chain(stream::pending()));
    assert_reply!(
        "body_too_large",
        raw(server.request(Method::POST, AGENTS), "application/json", body).await
    );
}

#[tokio::test]
async fn a_key_that_the_header_and_the_body_tell_differently_is_refused() {
    let server = Server::start().await;
    let body = json!({ "project": "setup", "spec": "x", "request_key": "one" });
    let post = server.request(Method::POST, AGENTS).header("Idempotency-Key", "two").json(&body);
    assert_reply!("contradicting_keys", read(post).await.unwrap());
    let post = server.request(Method::POST, AGENTS).header("Idempotency-Key", "one").json(&body);
    assert_eq!(read(post).await.unwrap().status, 201);
}

#[tokio::test]
async fn the_same_key_is_the_same_call_and_refuses_another_one() {
    let server = Server::start().await;
    let post = |body: &Value| {
        let request = server.request(Method::POST, AGENTS).header("Idempotency-Key", "k");
        read(request.json(body))
    };
    let nameless = json!({ "project": "setup", "spec": "x" });
    let first = post(&nameless).await.unwrap();
    let second = post(&nameless).await.unwrap();
    let made = |reply: &Reply| {
        (reply.status, reply.body["agent"]["name"].clone(), reply.body["operation_id"].clone())
    };
    assert_eq!(made(&second), made(&first));
    assert_reply!("key_reused", post(&json!({ "project": "setup", "spec": "y" })).await.unwrap());
}

#[tokio::test]
async fn a_key_where_none_is_taken_is_refused() {
    let server = Server::start().await;
    let body = json!({ "kind": "manager" });
    let post = server.request(Method::POST, "/api/v1/tokens").header("Idempotency-Key", "k").json(&body);
    assert_eq!(fault(&read(post).await.unwrap()), (400, "INVALID_INPUT", "request_key"));
}

#[tokio::test]
async fn absent_agent_project_and_token_are_not_found() {
    let server = Server::start().await;
    assert_reply!("agent_not_found", server.get("/api/v1/agents/nobody").await);
    let body = json!({ "project": "nothing", "spec": "x" });
    assert_reply!("project_not_found", server.post(AGENTS, &body).await);
    assert_reply!("token_not_found", server.delete("/api/v1/tokens/7").await);
}

#[tokio::test]
async fn a_name_that_is_taken_already_exists() {
    let server = Server::start().await;
    server.agent("otter").await;
    assert_reply!("already_exists", server.post(AGENTS, &spec()).await);
}

#[tokio::test]
async fn unknown_routes_and_methods_have_the_same_body() {
    let server = Server::start().await;
    assert_reply!("no_route", server.get("/api/v1/no/such/route?with=query").await);
    assert_reply!("wrong_method", read(server.request(Method::PUT, AGENTS)).await.unwrap());
}

#[tokio::test]
async fn call_beyond_the_rights_of_the_token_is_forbidden() {
    let server = Server::start().await;
    let manager = server.token(RoleKind::Manager).await;
    let request = server.request_as(&manager, Method::GET, "/api/v1/tokens");
    assert_reply!("forbidden", read(request).await.unwrap());
}

#[tokio::test]
async fn a_coder_that_was_never_seen_is_unavailable() {
    let running = RunningFleet::start("http://127.0.0.1:9", "x").await;
    let server = Server::start_on(Scene { running, coder: stub(Pace::Instant).await }).await;
    let mut reply = server.get("/api/v1/projects").await;
    // Why it cannot be reached is the operating system's wording.
    reply.body["message"] = json!(reply.body["message"].as_str().unwrap().split(':').next());
    assert_reply!("coder_unavailable", reply);
}

#[tokio::test]
async fn a_store_that_fails_tells_nothing_of_its_insides() {
    let server = Server::start().await;
    server.scene.running.store.close().await;
    assert_reply!("internal", server.get(AGENTS).await);
}

#[tokio::test]
async fn a_handler_that_panics_still_answers() {
    async fn panics() -> &'static str {
        panic!("as the test wants")
    }
    let server = Server::start_with(Router::new().route("/panics", get(panics).post(panics))).await;
    let panicked = server.get("/panics").await;
    assert_eq!(server.post("/panics", &json!({})).await.body, panicked.body);
    assert_reply!("panicked", panicked);
    assert_eq!(server.get(AGENTS).await.status, 200);
}

#[tokio::test]
async fn a_change_goes_on_to_its_end_when_the_client_leaves_in_the_middle() {
    let steps = [(); 3].map(|()| Arc::new(Semaphore::new(0)));
    let [begun, left, ended] = steps.clone();
    let change = move || {
        let [begun, left, ended] = steps.clone();
        async move {
            begun.add_permits(1);
            left.acquire().await.unwrap().forget();
            ended.add_permits(1);
        }
    };
    let server = Server::start_with(Router::new().route("/change", post(change))).await;
    let head = "POST /change HTTP/1.1\r\nHost: fleet.example\r\nContent-Length: 0\r\n";
    server.leave(head, async { begun.acquire().await.unwrap().forget() }).await;
    left.add_permits(1);
    let seen = tokio::time::timeout(Duration::from_secs(30), ended.acquire()).await;
    assert!(seen.is_ok(), "it was broken off");
}
