//! Terminals as clients reach them: over a WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, WebSocketUpgrade};
use axum::routing::get;
use fleet_mcp::local::LocalLimits;
use fleet_mcp::local::pty::{PtySessions, serve_socket};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, client_async};
use uuid::Uuid;

use super::workspace::Workspace;

type Socket = WebSocketStream<TcpStream>;

/// A server whose every socket runs the same command.
async fn serve(workspace: &Workspace, script: &str) -> SocketAddr {
    let sessions = Arc::new(PtySessions::new(LocalLimits::NORMAL));
    let spec = workspace.terminal(script);
    let open = async move |upgrade: WebSocketUpgrade, Path(reconnect): Path<Uuid>| {
        upgrade.on_upgrade(async move |socket| serve_socket(socket, &sessions, reconnect, spec).await)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/{reconnect}", get(open));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

async fn connect(address: SocketAddr, reconnect: Uuid) -> Socket {
    let stream = TcpStream::connect(address).await.unwrap();
    client_async(format!("ws://{address}/{reconnect}"), stream).await.unwrap().0
}

/// What arrived, and with which code the socket closed.
async fn rest(socket: &mut Socket) -> (String, Option<CloseCode>) {
    let mut output = Vec::new();
    while let Some(message) = socket.next().await {
        match message.unwrap() {
            Message::Binary(bytes) => output.extend_from_slice(&bytes),
            Message::Close(frame) => return (text(output), frame.map(|frame| frame.code)),
            Message::Ping(_) => {}
            message => panic!("unexpected {message:?}"),
        }
    }
    (text(output), None)
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).unwrap()
}

#[tokio::test]
async fn the_socket_closes_normally_for_any_exit_code() {
    let workspace = Workspace::new();
    let address = serve(&workspace, "printf out; exit 7").await;
    let answer = rest(&mut connect(address, Uuid::new_v4()).await).await;
    assert_eq!(answer, ("out".to_owned(), Some(CloseCode::Normal)));
}

#[tokio::test]
async fn input_comes_as_json_in_binary_frames() {
    let workspace = Workspace::new();
    let address = serve(&workspace, "stty -echo; read -r one; read -r two; echo $one $two; stty size").await;
    let mut socket = connect(address, Uuid::new_v4()).await;
    socket.send(Message::binary(json!({ "data": "one\n" }).to_string())).await.unwrap();
    socket.send(Message::binary(json!({ "width": 90, "height": 20 }).to_string())).await.unwrap();
    socket.send(Message::binary(json!({ "data": "two\n" }).to_string())).await.unwrap();
    let (output, code) = rest(&mut socket).await;
    assert!(output.ends_with("one two\r\n20 90\r\n"), "{output:?}");
    assert_eq!(code, Some(CloseCode::Normal));
}

#[tokio::test]
async fn a_command_too_long_for_a_real_server_ends_without_a_word() {
    let workspace = Workspace::new();
    // The path of the workspace, which is longer on some machines, is part of the command.
    let n_given = workspace.here("printf out #").len();
    let script = |n_bytes: usize| format!("printf out #{}", "x".repeat(n_bytes - n_given));
    let mut answers = Vec::new();
    for n_bytes in [1000, 1200] {
        let address = serve(&workspace, &script(n_bytes)).await;
        answers.push(rest(&mut connect(address, Uuid::new_v4()).await).await);
    }
    let normal = Some(CloseCode::Normal);
    assert_eq!(answers, [("out".to_owned(), normal), (String::new(), normal)]);
}

#[tokio::test]
async fn invalid_input_closes_the_socket_and_leaves_the_command() {
    let workspace = Workspace::new();
    let address = serve(&workspace, "stty -echo; printf ready; read -r line; printf \"got $line\"").await;
    let reconnect = Uuid::new_v4();
    let mut socket = connect(address, reconnect).await;
    socket.send(Message::binary("ls\n")).await.unwrap();
    assert_eq!(rest(&mut socket).await.1, Some(CloseCode::Normal));
    let mut again = connect(address, reconnect).await;
    again.send(Message::binary(json!({ "data": "line\n" }).to_string())).await.unwrap();
    let (output, _) = rest(&mut again).await;
    assert!(output.ends_with("got line"), "{output:?}");
}

/// The client still sends when the command has ended: the output must arrive all the same.
#[tokio::test]
async fn late_input_does_not_cost_the_last_output() {
    let workspace = Workspace::new();
    let address = serve(&workspace, "stty raw -echo -opost; read -r line; seq 1 100000; printf end").await;
    let (mut sender, mut receiver) = connect(address, Uuid::new_v4()).await.split();
    let frame = json!({ "data": "\n".repeat(1000) }).to_string();
    let sending =
        tokio::spawn(async move { while sender.send(Message::binary(frame.clone())).await.is_ok() {} });
    let mut output = Vec::new();
    while let Some(Ok(message)) = receiver.next().await {
        if let Message::Binary(bytes) = message {
            output.extend_from_slice(&bytes);
        }
    }
    sending.abort();
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect::<String>() + "end";
    assert!(text(output).ends_with(&expected));
}
