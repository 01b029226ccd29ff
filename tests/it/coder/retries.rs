//! Which failed calls are tried again, and which never.

use fleet_mcp::coder::{Client, ErrorKind, Outcome};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::calls::call;
use super::{TOKEN, client_with_attempts, fixture, server};

async fn tries(server: &MockServer) -> usize {
    server.received_requests().await.unwrap().len()
}

/// A server that gives each answer once, the last one for ever.
async fn server_with(first: ResponseTemplate, then: ResponseTemplate) -> (MockServer, Client) {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(first).up_to_n_times(1).mount(&server).await;
    Mock::given(any()).respond_with(then).mount(&server).await;
    let client = client_with_attempts(&server.uri(), 3);
    (server, client)
}

fn organizations() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(&fixture("010-organizations")["body"])
}

fn workspace() -> ResponseTemplate {
    ResponseTemplate::new(201).set_body_json(&fixture("048-workspace-create")["body"])
}

fn rate_limited() -> ResponseTemplate {
    ResponseTemplate::new(429)
        .insert_header("Retry-After", "60")
        .insert_header("X-Ratelimit-Reset", "1794787419")
        .insert_header("Date", "Mon, 16 Nov 2026 00:03:39 GMT")
}

#[tokio::test]
async fn a_read_is_tried_again_after_a_server_error() {
    let (server, client) = server_with(ResponseTemplate::new(502), organizations()).await;
    call(&client, "organizations", &[]).await.unwrap();
    assert_eq!(tries(&server).await, 2);
}

#[tokio::test]
async fn a_read_is_tried_again_after_an_answer_that_makes_no_sense() {
    let html = ResponseTemplate::new(200).set_body_raw("<!doctype html>", "text/html");
    let (server, client) = server_with(html, organizations()).await;
    call(&client, "organizations", &[]).await.unwrap();
    assert_eq!(tries(&server).await, 2);
}

#[tokio::test]
async fn a_create_is_never_repeated_after_a_server_error() {
    let (server, client) = server_with(ResponseTemplate::new(500), workspace()).await;
    let error = call(&client, "workspace_create", &[]).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome(), tries(&server).await),
        (ErrorKind::Server, Outcome::Unclear, 1)
    );
}

/// The recorded `Retry-After` is a constant minute; the window that has just ended says "now". Waiting for the
/// minute would run into the test's own patience.
#[tokio::test]
async fn even_a_create_is_repeated_as_soon_as_the_rate_limit_opens() {
    let (server, client) = server_with(rate_limited(), workspace()).await;
    call(&client, "workspace_create", &[]).await.unwrap();
    assert_eq!(tries(&server).await, 2);
}

#[tokio::test]
async fn a_rejected_token_is_not_tried_again_but_a_new_one_is_used() {
    let (server, client) = server_with(ResponseTemplate::new(401), organizations()).await;
    let error = call(&client, "organizations", &[]).await.unwrap_err();
    assert_eq!((error.kind(), tries(&server).await), (ErrorKind::Unauthorized, 1));

    client.clone().token_replace("another-token".into());
    call(&client, "organizations", &[]).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    let tokens: Vec<_> = requests.iter().map(|request| &request.headers["coder-session-token"]).collect();
    assert_eq!(tokens, [TOKEN, "another-token"]);
}

#[tokio::test]
async fn attempts_are_used_up_and_then_the_last_failure_is_told() {
    let server =
        server(ResponseTemplate::new(503).set_body_json(serde_json::json!({"message": "busy"}))).await;
    let error = call(&client_with_attempts(&server.uri(), 3), "templates", &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "templates: Coder answered 503: busy");
    assert_eq!(tries(&server).await, 3);
}

#[tokio::test]
async fn a_server_that_is_not_there_was_sent_nothing() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    drop(socket);
    let error = call(&client_with_attempts(&url, 2), "workspace_create", &[]).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::NotSent));
}

/// The label is longer than DNS allows, so no resolver has to be asked.
#[tokio::test]
async fn a_host_name_that_does_not_resolve_was_sent_nothing() {
    let url = format!("http://{}.invalid", "a".repeat(64));
    let error = call(&client_with_attempts(&url, 1), "organizations", &[]).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unreachable, Outcome::NotSent));
}

#[tokio::test]
async fn a_websocket_is_not_opened_twice_after_a_server_error() {
    let server = server(ResponseTemplate::new(500)).await;
    let error = call(&client_with_attempts(&server.uri(), 3), "pty_connect", &[]).await.unwrap_err();
    assert_eq!((error.kind(), tries(&server).await), (ErrorKind::Server, 1));
}
