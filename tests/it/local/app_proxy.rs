//! What reaches an agent's app: everything but Coder's own cookie.

use std::collections::BTreeMap;
use std::future::IntoFuture;

use axum::http::HeaderMap;
use axum::routing::any;
use axum::{Json, Router};
use reqwest::Method;
use serde_json::json;

use crate::harness::{LocalSite, read, trusted_directory};

async fn headers(headers: HeaderMap) -> Json<BTreeMap<String, String>> {
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Json(headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect())
}

#[tokio::test]
async fn the_cookie_stays_behind_and_a_header_goes_along_as_on_a_real_coder() {
    let site = LocalSite::new();
    let local = site.start().await;
    local.create_ready("agent").await;
    // An app that shows what it gets takes the place of the agent's.
    let socket = trusted_directory(site.data_dir(), "agent").join("agent.sock");
    std::fs::remove_file(&socket).unwrap();
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let serving = tokio::spawn(axum::serve(listener, Router::new().fallback(any(headers))).into_future());
    let path = "/@fleet/agent.main/apps/ccw/echo";
    let token = &local.token;
    let cookies = format!("theme=dark; coder_session_token={token}; lang=en");
    let request = local.api().bare(Method::POST, path).header("Cookie", cookies).header("X-Mine", "1");
    let seen = read(request).await.unwrap().body;
    assert_eq!((&seen["cookie"], &seen["x-mine"]), (&json!("theme=dark; lang=en"), &json!("1")));
    assert!(!seen.to_string().contains(token.as_str()), "{seen}");
    let request = local.api().request(Method::GET, path);
    assert_eq!(read(request).await.unwrap().body["coder-session-token"], json!(token));
    serving.abort();
    local.coder.stop().await;
}
