//! WebSockets against a real server that records what it was sent.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::ws::{Message as Frame, WebSocket as ServerSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use fleet_mcp::coder::WebSocket;
use futures_util::{SinkExt, StreamExt};
use http::HeaderMap;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use super::calls::pty_options;
use super::{TOKEN, client};

/// The path with query, and the headers, of every request.
type Seen = Arc<Mutex<Vec<(String, HeaderMap)>>>;

async fn echo_server() -> (String, Seen) {
    let seen = Seen::default();
    let router = Router::new().fallback(any(upgrade)).with_state(Arc::clone(&seen));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, seen)
}

async fn upgrade(State(seen): State<Seen>, upgrade: WebSocketUpgrade, request: Request) -> Response {
    seen.lock().unwrap().push((request.uri().to_string(), request.headers().clone()));
    upgrade.on_upgrade(echo)
}

/// Answers text with binary, as a terminal does.
async fn echo(mut socket: ServerSocket) {
    while let Some(Ok(Frame::Text(text))) = socket.recv().await {
        socket.send(Frame::Binary(text.as_bytes().to_vec().into())).await.unwrap();
    }
}

async fn round_trip(socket: &mut WebSocket, text: &str) -> Message {
    socket.send(Message::text(text)).await.unwrap();
    socket.next().await.unwrap().unwrap()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_terminal_is_opened_with_the_header_and_talks_both_ways() {
    let (url, seen) = echo_server().await;
    let mut socket = client(&url).pty_connect(Uuid::nil(), &pty_options()).await.unwrap();
    let input = r#"{"data":"ls\n"}"#;
    assert_eq!(round_trip(&mut socket, input).await, Message::binary(input.as_bytes().to_vec()));

    let (path, headers) = seen.lock().unwrap().remove(0);
    assert_eq!(
        path,
        "/api/v2/workspaceagents/00000000-0000-0000-0000-000000000000/pty\
         ?reconnect=00000000-0000-0000-0000-000000000000&width=80&height=24\
         &backend_type=buffered&command=echo+hi+%26+exit&container=inner"
    );
    assert_eq!((header(&headers, "coder-session-token"), header(&headers, "cookie")), (Some(TOKEN), None));
}

#[tokio::test]
async fn three_megabytes_pass_whole_and_in_order() {
    let (url, _) = echo_server().await;
    let mut socket = client(&url).pty_connect(Uuid::nil(), &pty_options()).await.unwrap();
    for letter in ["a", "b", "c"] {
        let text = letter.repeat(1 << 20);
        assert!(round_trip(&mut socket, &text).await == Message::binary(text.into_bytes()));
    }
}
