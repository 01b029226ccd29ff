//! The stub's app proxy: cookie only, no secret passed on, and the conversation as recorded.

use super::shape::assert_same_shape;
use crate::harness::{AppRequest, CoderStub, Pace, Reply, fixture, read};
use reqwest::Method;
use serde_json::{Value, json};

const APP: &str = "/@fleetadmin/agent-1.main/apps/ccw";

async fn ask(stub: &CoderStub, method: Method, path: &str, body: Option<Value>) -> Reply {
    let cookie = format!("coder_session_token={}; theme=dark", stub.token());
    let request = stub.api().bare(method, path).header("Cookie", cookie);
    let request = if let Some(body) = body { request.json(&body) } else { request };
    read(request).await.unwrap()
}

async fn say(stub: &CoderStub, kind: &str, content: &str) -> u16 {
    let body = json!({ "type": kind, "content": content });
    ask(stub, Method::POST, &format!("{APP}/message"), Some(body)).await.status
}

#[tokio::test]
async fn conversation_looks_like_the_recordings() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    let recorded = |prefix: &str, ours: &Reply| {
        assert_eq!(ours.status, fixture(prefix).status(), "{prefix}");
        assert_same_shape(prefix, fixture(prefix).body(), &ours.body);
    };
    let get = |path: &'static str| ask(&stub, Method::GET, path, None);
    recorded("390", &get("/@fleetadmin/agent-1.main/apps/ccw/messages").await);
    recorded("393", &get("/@fleetadmin/agent-1/apps/ccw/status").await);
    let body = fixture("391").raw["request"]["body"].clone();
    recorded("391", &ask(&stub, Method::POST, &format!("{APP}/message"), Some(body)).await);
    recorded("392", &get("/@fleetadmin/agent-1.main/apps/ccw/messages").await);
    recorded("394", &get("/@me/agent-1.main/apps/ccw/status").await);
    recorded("395", &get("/@fleetadmin/agent-1.main/apps/ccw").await);
    recorded("397", &get("/@fleetadmin/agent-1.main/apps/nope/status").await);
    recorded("399", &get("/@fleetadmin/absent/apps/ccw/status").await);
}

#[tokio::test]
async fn a_token_outside_of_the_cookie_is_no_credential() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    let reply = stub.api().get(&format!("{APP}/status")).await;
    assert_eq!(reply.status, fixture("396").status());
    assert_eq!(stub.app_requests("agent-1"), []);
}

#[tokio::test]
async fn the_app_sees_every_header_but_the_session_cookie() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    say(&stub, "user", "hello").await;
    let [AppRequest { method, endpoint, headers, body }] = &stub.app_requests("agent-1")[..] else {
        panic!("the app received one request");
    };
    assert_eq!((method.as_str(), endpoint.as_str()), ("POST", "message"));
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), json!({ "type": "user", "content": "hello" }));
    let cookies: Vec<_> = headers.iter().filter(|(name, _)| name == "cookie").collect();
    assert_eq!(cookies, [&("cookie".to_owned(), "theme=dark".to_owned())]);
    assert!(!headers.iter().any(|(_, value)| value.contains(&stub.token())));
}

#[tokio::test]
async fn a_token_beside_the_cookie_reaches_the_app() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    let token = stub.token();
    let path = format!("{APP}/status?coder_session_token={token}");
    let request = stub.api().request(Method::GET, &path);
    read(request.header("Cookie", format!("coder_session_token={token}"))).await.unwrap();
    let received = &stub.app_requests("agent-1")[0];
    assert_eq!(received.endpoint, format!("status?coder_session_token={token}"));
    assert!(received.headers.contains(&("coder-session-token".to_owned(), token)));
}
