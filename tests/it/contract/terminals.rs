//! Terminals: a command's output, its end, and finding it again.

use std::time::Duration;

use fleet_mcp::coder::{PtyOptions, WebSocket};
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use uuid::Uuid;

use super::{Subject, agent_id, on_every_coder};

const DEADLINE: Duration = Duration::from_secs(60);

fn options(command: &str) -> PtyOptions {
    PtyOptions {
        reconnect: Uuid::new_v4(),
        width: 80,
        height: 24,
        command: command.to_owned(),
        container: None,
    }
}

/// Reads until the text has come, or the socket has closed.
async fn read_until(socket: &mut WebSocket, wanted: &str) -> (String, Option<CloseCode>) {
    let mut text = String::new();
    let read = async {
        while let Some(message) = socket.next().await {
            match message.unwrap() {
                Message::Binary(bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
                Message::Close(frame) => return frame.map(|frame| frame.code),
                _ => {}
            }
            if text.contains(wanted) {
                return None;
            }
        }
        None
    };
    let code = tokio::time::timeout(DEADLINE, read).await.unwrap_or_else(|_| panic!("{wanted} never comes"));
    (text, code)
}

#[tokio::test]
async fn a_command_prints_and_closes_with_1000_for_any_exit_code() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let mut socket = subject.client.pty_connect(agent, &options("echo hi; exit 3")).await.unwrap();
        let (text, code) = read_until(&mut socket, "\u{0}").await;
        assert_eq!((text.as_str(), code), ("hi\r\n", Some(CloseCode::Normal)));
    })
    .await;
}

#[tokio::test]
async fn a_terminal_left_is_found_again_with_what_it_said() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let options = options("echo begun; cat");
        let mut socket = subject.client.pty_connect(agent, &options).await.unwrap();
        read_until(&mut socket, "begun").await;
        drop(socket);
        let mut socket = subject.client.pty_connect(agent, &options).await.unwrap();
        assert!(read_until(&mut socket, "begun").await.0.contains("begun"));
        socket.send(Message::Binary(r#"{"data":"more\n"}"#.into())).await.unwrap();
        assert!(read_until(&mut socket, "more").await.0.contains("more"));
    })
    .await;
}

#[tokio::test]
async fn input_in_a_text_frame_ends_the_connection_and_not_the_command() {
    on_every_coder(async |subject: &Subject| {
        let agent = agent_id(&subject.create_ready().await);
        let options = options("echo begun; cat");
        let mut socket = subject.client.pty_connect(agent, &options).await.unwrap();
        read_until(&mut socket, "begun\r\n").await;
        socket.send(Message::Text(r#"{"data":"more\n"}"#.into())).await.unwrap();
        assert_eq!(read_until(&mut socket, "more").await, (String::new(), Some(CloseCode::Unsupported)));
        let mut socket = subject.client.pty_connect(agent, &options).await.unwrap();
        assert_eq!(read_until(&mut socket, "begun\r\n").await, ("begun\r\n".to_owned(), None));
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_is_not_there_has_no_terminal() {
    on_every_coder(async |subject: &Subject| {
        let path = format!("/api/v2/workspaceagents/{}/pty?reconnect={}", Uuid::new_v4(), Uuid::new_v4());
        let reply = subject.api.get(&path).await;
        assert_eq!(
            (reply.status, reply.headers["content-type"].to_str().unwrap()),
            (404, "text/html; charset=utf-8")
        );
    })
    .await;
}
