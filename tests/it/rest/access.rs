//! Who gets in: tokens, names and origins, and that no token is ever told.

use chrono::{TimeDelta, Utc};
use reqwest::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use reqwest::{Method, RequestBuilder};

use serde_json::json;

use super::{Server, assert_reply};
use crate::harness::{Capture, read};

const AGENTS: &str = "/api/v1/agents";

fn bare(server: &Server) -> RequestBuilder {
    server.bare(Method::GET, AGENTS)
}

async fn status(request: RequestBuilder) -> u16 {
    read(request).await.unwrap().status
}

#[tokio::test]
async fn a_request_without_a_token_is_told_to_bring_one() {
    let server = Server::start().await;
    assert_reply!("missing_token", read(bare(&server)).await.unwrap());
}

#[tokio::test]
async fn a_header_that_is_not_bearer_and_one_token_is_malformed() {
    let server = Server::start().await;
    let basic = read(bare(&server).header(AUTHORIZATION, "Basic b3R0ZXI6c2VjcmV0")).await.unwrap();
    assert_reply!("malformed_header", basic);
    for header in ["Bearer", "Bearer ", "Bearer one two", "bearer\ttoken", "Token x"] {
        let reply = read(bare(&server).header(AUTHORIZATION, header)).await.unwrap();
        assert_eq!((reply.status, &reply.body), (401, &basic.body), "{header:?}");
    }
    let twice = bare(&server).header(AUTHORIZATION, "Bearer a").header(AUTHORIZATION, "Bearer b");
    assert_eq!(read(twice).await.unwrap().body, basic.body);
}

#[tokio::test]
async fn holder_of_a_dead_token_is_told_why_and_a_stranger_is_not() {
    let server = Server::start().await;
    let unknown = read(bare(&server).bearer_auth("fleet_0123")).await.unwrap();
    assert_reply!("invalid_token", unknown);

    let expired = server.token_until(Utc::now() - TimeDelta::seconds(1)).await;
    let revoked = server.token_until(Utc::now() + TimeDelta::hours(1)).await;
    let known = server.get("/api/v1/tokens").await.body;
    let id = known["tokens"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(status(bare(&server).bearer_auth(&revoked)).await, 200);
    server.delete(&format!("/api/v1/tokens/{id}")).await;
    for (token, message) in [(&expired, "the token has expired"), (&revoked, "the token was revoked")] {
        let reply = read(bare(&server).bearer_auth(token)).await.unwrap();
        let mut told = unknown.body.clone();
        told["message"] = message.into();
        assert_eq!((reply.status, reply.body), (401, told));
        let stranger = read(bare(&server).bearer_auth(format!("{token}0"))).await.unwrap();
        assert_eq!((stranger.status, stranger.body), (401, unknown.body.clone()));
    }
}

#[tokio::test]
async fn the_word_bearer_may_be_written_in_any_case() {
    let server = Server::start().await;
    let token = server.token_until(Utc::now() + TimeDelta::hours(1)).await;
    assert_eq!(status(bare(&server).header(AUTHORIZATION, format!("bEaReR {token}"))).await, 200);
}

/// What a browser sends with a request of the page itself.
fn from_page(request: RequestBuilder, token: &str) -> RequestBuilder {
    let cookies = format!("theme=dark; fleet_session={token}");
    request.header(COOKIE, cookies).header("Sec-Fetch-Site", "same-origin")
}

#[tokio::test]
async fn a_session_cookie_counts_in_requests_of_the_page_itself_only() {
    let server = Server::start().await;
    let token = server.token_until(Utc::now() + TimeDelta::hours(1)).await;
    assert_eq!(status(from_page(bare(&server), &token)).await, 200);

    let cookie = format!("fleet_session={token}");
    let without_site = read(bare(&server).header(COOKIE, &cookie)).await.unwrap();
    assert_reply!("cookie_of_another_page", without_site);
    for site in ["same-site", "cross-site", "none"] {
        let reply = read(bare(&server).header(COOKIE, &cookie).header("Sec-Fetch-Site", site)).await.unwrap();
        assert_eq!((reply.status, &reply.body), (403, &without_site.body), "{site}");
    }
    let mcp = from_page(server.bare(Method::POST, "/mcp"), &token).header("X-Fleet-CSRF", "1");
    assert_eq!(status(mcp.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }))).await, 401);
    let twice = from_page(bare(&server), &token).header(COOKIE, &cookie);
    assert_eq!(status(twice).await, 401);
    assert_eq!(status(from_page(bare(&server), "fleet_0123")).await, 401);
    let both = server.request(Method::GET, AGENTS).header(COOKIE, "fleet_session=fleet_0123");
    assert_eq!(status(both).await, 200);
}

#[tokio::test]
async fn a_change_by_cookie_needs_the_header_that_no_other_page_can_send() {
    let server = Server::start().await;
    let token = server.token_until(Utc::now() + TimeDelta::hours(1)).await;
    let create = || {
        let body = json!({ "project": "setup", "spec": "Fix the login bug", "name": "otter" });
        from_page(server.bare(Method::POST, AGENTS), &token).json(&body)
    };
    let refused = read(create()).await.unwrap();
    assert_eq!((refused.status, &refused.body["details"]), (403, &json!({ "field": "X-Fleet-CSRF" })));
    assert_eq!(server.get(AGENTS).await.body["total_count"], 0);
    assert_eq!(status(create().header("X-Fleet-CSRF", "1")).await, 201);
}

#[tokio::test]
async fn routes_that_do_not_exist_need_a_token_too() {
    let server = Server::start().await;
    assert_eq!(status(server.bare(Method::GET, "/no/such/route")).await, 401);
    assert_eq!(status(server.bare(Method::OPTIONS, AGENTS)).await, 401);
}

#[tokio::test]
async fn only_the_servers_own_names_are_taken_as_host() {
    let server = Server::start().await;
    let with_host = |host: &str| server.request(Method::GET, AGENTS).header(HOST, host.to_owned());
    assert_reply!("foreign_host", read(with_host("evil.example")).await.unwrap());
    let cases = [
        ("localhost", 200),
        ("LocalHost:9", 200),
        ("127.0.0.1", 200),
        ("[::1]:3001", 200),
        ("fleet.example:80", 200),
        ("one-port.example:8443", 200),
        ("one-port.example", 403),
        ("one-port.example:80", 403),
        ("localhost.evil.example", 403),
        ("evil.example@localhost", 403),
        ("", 403),
    ];
    for (host, expected) in cases {
        assert_eq!(status(with_host(host)).await, expected, "{host:?}");
    }
    assert_eq!(status(server.bare(Method::GET, "/healthz").header(HOST, "evil.example")).await, 403);
}

#[tokio::test]
async fn forwarding_headers_do_not_replace_the_host() {
    let server = Server::start().await;
    let request = server.request(Method::GET, AGENTS).header("X-Forwarded-Host", "evil.example");
    assert_eq!(status(request.header("X-Forwarded-For", "203.0.113.9")).await, 200);
    let request = server.request(Method::GET, AGENTS).header(HOST, "evil.example");
    assert_eq!(status(request.header("X-Forwarded-Host", "localhost")).await, 403);
}

#[tokio::test]
async fn only_pages_of_the_servers_own_names_may_call_it() {
    let server = Server::start().await;
    let with_origin = |origin: &str| server.request(Method::GET, AGENTS).header(ORIGIN, origin.to_owned());
    assert_reply!("foreign_origin", read(with_origin("https://evil.example")).await.unwrap());
    let cases = [
        ("http://localhost:5173", 200),
        ("https://fleet.example", 200),
        ("https://pages.example", 200),
        ("http://pages.example", 403),
        ("https://pages.example:8443", 403),
        ("null", 403),
        ("file://localhost", 403),
        ("localhost", 403),
        ("", 403),
    ];
    for (origin, expected) in cases {
        assert_eq!(status(with_origin(origin)).await, expected, "{origin:?}");
    }
    let both = with_origin("http://localhost").header(ORIGIN, "https://evil.example");
    assert_eq!(status(both).await, 403);
}

#[tokio::test]
async fn every_answer_carries_an_id_of_ours() {
    let server = Server::start().await;
    let reply = read(bare(&server).header("x-request-id", "theirs")).await.unwrap();
    let id = reply.headers["x-request-id"].to_str().unwrap();
    assert_eq!(id.parse::<uuid::Uuid>().map(|id| id.get_version_num()), Ok(7));
}

#[tokio::test]
async fn a_token_is_in_no_log_at_any_level() {
    let capture = Capture::start();
    let server = Server::start().await;
    let token = server.token_until(Utc::now() + TimeDelta::hours(1)).await;
    let wrong = format!("{token}0");
    assert_eq!(status(server.request_as(&token, Method::GET, AGENTS)).await, 200);
    assert_eq!(status(server.request_as(&wrong, Method::GET, AGENTS)).await, 401);
    let logged = capture.text();
    assert!(logged.contains(r#"http.route="/api/v1/agents""#) && logged.contains("http.status=401"));
    // The wrong token begins with the right one, so one search finds both.
    assert!(!logged.contains(&token));
}

#[tokio::test]
async fn a_token_is_of_the_kind_of_its_role_and_no_agents_token_is_an_operators() {
    let server = Server::start().await;
    let name = "a name must have 1 to 40 printable characters";
    let cases = [
        (
            json!({ "kind": "agent", "role": "operator" }),
            "role",
            "role 'operator' is for operators; an agent cannot have it",
        ),
        (
            json!({ "kind": "operator", "role": "coder" }),
            "role",
            "role 'coder' is of kind coding, but the token is of kind operator",
        ),
        (json!({ "kind": "agent" }), "agent", "a token of kind agent needs an agent or a role"),
        (json!({ "kind": "manager", "name": "x".repeat(41) }), "name", name),
        (json!({ "kind": "manager", "name": "x".repeat(900_000) }), "name", name),
        (json!({ "kind": "manager", "name": "ci\u{1b}[2J" }), "name", name),
        (json!({ "kind": "manager", "name": " " }), "name", name),
    ];
    let before = server.get("/api/v1/tokens").await.body["total_count"].clone();
    for (body, field, message) in cases {
        let reply = server.post("/api/v1/tokens", &body).await;
        let told =
            (reply.status, &reply.body["code"], &reply.body["details"]["field"], &reply.body["message"]);
        assert_eq!(told, (400, &json!("INVALID_INPUT"), &json!(field), &json!(message)));
    }
    for kind in ["operator", "manager", "agent"] {
        let reply = server.post("/api/v1/tokens", &json!({ "kind": kind, "role": "nosuch" })).await;
        assert_eq!((reply.status, &reply.body["code"]), (404, &json!("NOT_FOUND")), "{kind}");
    }
    assert_eq!(server.get("/api/v1/tokens").await.body["total_count"], before);

    for (kind, role, had) in [
        ("agent", "reviewer", "review"),
        ("agent", "manager", "manager"),
        ("operator", "operator", "operator"),
    ] {
        let body = json!({ "kind": kind, "role": role, "name": "x".repeat(40) });
        let made = server.post("/api/v1/tokens", &body).await;
        assert_eq!((made.status, &made.body["kind"], &made.body["role"]), (201, &json!(had), &json!(role)));
    }
}

#[tokio::test]
async fn a_token_is_revoked_once_and_stays_so() {
    let server = Server::start().await;
    let made = server.post("/api/v1/tokens", &json!({ "kind": "manager" })).await.body;
    let path = format!("/api/v1/tokens/{}", made["id"].as_str().unwrap());
    for n_revoked in [1, 0] {
        let reply = server.delete(&path).await;
        assert_eq!(
            (reply.status, reply.body),
            (200, json!({ "id": made["id"], "revoked_count": n_revoked }))
        );
    }
    let unknown = server.delete(&format!("/api/v1/tokens/{}", uuid::Uuid::nil())).await;
    assert_eq!((unknown.status, &unknown.body["code"]), (404, &json!("NOT_FOUND")));
}
