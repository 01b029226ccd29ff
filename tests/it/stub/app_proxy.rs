//! The stub's app proxy: cookie only, no secret passed on, and a scripted AgentAPI behind it.

use super::shape::assert_same_shape;
use crate::harness::{AgentScript, AppRequest, CoderStub, Pace, Reply, fixture, read};
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

async fn status(stub: &CoderStub) -> Value {
    ask(stub, Method::GET, &format!("{APP}/status"), None).await.body["status"].clone()
}

async fn contents(stub: &CoderStub) -> Vec<Value> {
    let body = ask(stub, Method::GET, &format!("{APP}/messages"), None).await.body;
    body["messages"].as_array().into_iter().flatten().map(|message| message["content"].clone()).collect()
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

#[tokio::test]
async fn a_working_agent_refuses_messages_until_it_is_finished_or_interrupted() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    stub.set_agent_script("agent-1", AgentScript::Work);
    assert_eq!((say(&stub, "user", "first").await, status(&stub).await), (200, json!("running")));
    assert_eq!(say(&stub, "user", "too early").await, 500);
    stub.agent_finishes("agent-1", "first is done");
    assert_eq!((say(&stub, "user", "second").await, say(&stub, "raw", "\u{1b}").await), (200, 200));
    assert_eq!((status(&stub).await, say(&stub, "bogus", "x").await), (json!("stable"), 422));
    let expected = ["hello, I am a scripted agent", "first", "first is done", "second", "interrupted"];
    assert_eq!(contents(&stub).await, expected.map(|content| json!(content)));
}

#[tokio::test]
async fn an_unreachable_agent_is_a_bad_gateway() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    stub.disconnect("agent-1");
    assert_eq!(say(&stub, "user", "hello").await, 502);
}
