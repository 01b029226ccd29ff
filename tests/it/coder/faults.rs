//! Answers that no server should give: cut, late, foreign or half wrong.

use std::time::Duration;

use fleet_mcp::coder::{Client, CoderError, ErrorKind, Outcome, Undecodable, WorkspaceQuery};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use wiremock::ResponseTemplate;

use super::calls::call;
use super::{client, fixture, options, server};

/// A server that answers one connection with these bytes and then behaves as `end` says.
async fn raw_server(answer: &'static str, end: End) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert_ne!(socket.read(&mut [0; 4096]).await.unwrap(), 0);
        socket.write_all(answer.as_bytes()).await.unwrap();
        if end == End::Stall {
            std::future::pending::<()>().await;
        }
    });
    (url, serving)
}

#[derive(PartialEq)]
enum End {
    Close,
    Stall,
}

fn nature(error: &CoderError) -> (ErrorKind, Outcome) {
    (error.kind(), error.outcome())
}

#[tokio::test]
async fn a_body_cut_short_leaves_the_outcome_unclear() {
    let answer = "HTTP/1.1 201 Created\r\ncontent-length: 500\r\n\r\n{\"id\":";
    let (url, _serving) = raw_server(answer, End::Close).await;
    let error = call(&client(&url), "workspace_create", &[]).await.unwrap_err();
    assert_eq!(nature(&error), (ErrorKind::Cut, Outcome::Unclear));
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_leaves_the_outcome_unclear() {
    let (url, _serving) = raw_server("", End::Close).await;
    let error = call(&client(&url), "workspace_create", &[]).await.unwrap_err();
    assert_eq!(nature(&error), (ErrorKind::Cut, Outcome::Unclear));
}

#[tokio::test]
async fn a_stalled_answer_ends_at_the_deadline() {
    let (url, serving) = raw_server("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", End::Stall).await;
    let patient = options(&url, 1);
    let client =
        Client::new(fleet_mcp::coder::ClientOptions { timeout: Duration::from_millis(300), ..patient });
    let error = call(&client.unwrap(), "organizations", &[]).await.unwrap_err();
    assert_eq!(nature(&error), (ErrorKind::Timeout, Outcome::Unclear));
    serving.abort();
}

#[tokio::test]
async fn bodies_that_are_not_the_expected_json_never_panic() {
    for body in ["", "OK", "<!doctype html>", "null", "[]", "{}", "{\"id\":7}", "{\"id\":\"x\"", "\u{0}"] {
        let server = server(ResponseTemplate::new(200).set_body_string(body)).await;
        let error = call(&client(&server.uri()), "workspace", &[]).await.unwrap_err();
        assert_eq!(nature(&error), (ErrorKind::Undecodable, Outcome::Unclear), "{body}");
    }
}

#[tokio::test]
async fn an_undecodable_answer_names_the_field_and_keeps_the_body() {
    let server = server(ResponseTemplate::new(200).set_body_string(r#"{"version":7}"#)).await;
    let error = call(&client(&server.uri()), "build_info", &[]).await.unwrap_err();
    let CoderError::Undecodable { operation, status, reason, body } = error else { panic!("{error}") };
    assert_eq!((operation, status, body.as_str()), ("build_info", 200, r#"{"version":7}"#));
    assert_eq!(reason, "version: invalid type: integer `7`, expected a string at line 1 column 12");
}

#[tokio::test]
async fn an_answer_with_something_behind_it_is_not_believed() {
    let body = r#"{"version":"v2"}{"version":"v3"}"#;
    let server = server(ResponseTemplate::new(200).set_body_string(body)).await;
    let error = call(&client(&server.uri()), "build_info", &[]).await.unwrap_err();
    assert_eq!(nature(&error), (ErrorKind::Undecodable, Outcome::Unclear));
}

#[tokio::test]
async fn one_bad_workspace_does_not_spoil_the_list() {
    let mut body = fixture("068-list-empty-q")["body"].clone();
    let good = body["workspaces"][0].clone();
    let mut bad = good.clone();
    bad["latest_build"]["build_number"] = json!("seven");
    bad["name"] = json!("bad-one");
    body["workspaces"] = json!([bad, good, 5]);
    let server = server(ResponseTemplate::new(200).set_body_json(body)).await;

    let query = WorkspaceQuery { q: String::new(), limit: 0, offset: 0, metadata_keys: Vec::new() };
    let page = client(&server.uri()).workspaces(&query).await.unwrap();

    assert_eq!(page.workspaces, [serde_json::from_value(good.clone()).unwrap()]);
    let named = Undecodable {
        id: good["id"].as_str().unwrap().parse().ok(),
        name: Some("bad-one".to_owned()),
        error: "latest_build.build_number: invalid type: string \"seven\", expected i64".to_owned(),
    };
    let nameless = Undecodable {
        id: None,
        name: None,
        error: "invalid type: integer `5`, expected struct Workspace".to_owned(),
    };
    assert_eq!(page.undecodable, [named, nameless]);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = server(ResponseTemplate::new(200)).await;
    let moved = ResponseTemplate::new(308).insert_header("Location", elsewhere.uri());
    let server = server(moved).await;
    let error = call(&client(&server.uri()), "organizations", &[]).await.unwrap_err();
    assert_eq!(nature(&error), (ErrorKind::Unexpected, Outcome::Refused));
    assert_eq!(elsewhere.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_cookie_that_the_server_sets_is_never_sent_back() {
    let answer = ResponseTemplate::new(200)
        .insert_header("Set-Cookie", "coder_session_token=other; Path=/")
        .set_body_json(&fixture("010-organizations")["body"]);
    let server = server(answer).await;
    let client = client(&server.uri());
    call(&client, "organizations", &[]).await.unwrap();
    call(&client, "organizations", &[]).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    assert!(requests.iter().all(|request| !request.headers.contains_key("cookie")));
}
