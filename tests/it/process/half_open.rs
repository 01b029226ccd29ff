//! Connections on which a client never says what it wants: as many as there may be, they keep no other client out.

use std::net::SocketAddr;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{Api, Program, Up, read};

/// Connects and sends half of a request.
async fn half_open(address: SocketAddr) -> TcpStream {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").await.unwrap();
    connection
}

fn address_of(url: &str) -> SocketAddr {
    url.trim_end_matches('/').strip_prefix("http://").unwrap().parse().unwrap()
}

#[tokio::test]
async fn more_half_open_connections_than_descriptors_keep_no_client_and_no_agent_out() {
    let up = Up::start(&Program::without_coder().with_descriptors(256)).await;
    let file = std::fs::read_to_string(up.program.data_dir().join("coder.json")).unwrap();
    let coder: Value = serde_json::from_str(&file).unwrap();
    let coder_url = coder["url"].as_str().unwrap().trim_end_matches('/');
    let mut open = Vec::new();
    for _ in 0..400 {
        open.push(half_open(address_of(&up.url)).await);
        open.push(half_open(address_of(coder_url)).await);
    }
    let health = read(Api::new(coder_url, "").bare(Method::GET, "/api/v2/buildinfo")).await.unwrap();
    assert_eq!(health.status, 200);
    up.agent("otter").await;
    assert_eq!(up.show("otter").await["status"], json!("idle"));
    assert_eq!(open.len(), 800);
}
