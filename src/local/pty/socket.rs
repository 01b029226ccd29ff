//! Connects a WebSocket to a terminal with Coder's framing.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};
use uuid::Uuid;

use super::{Attachment, PtyCommand, PtyInput, PtySessions, PtySpec, input};

/// A real server silently fails longer commands (between 1,000 and 1,200 bytes), so we refuse them too: a client
/// that works here works there.
const MAX_COMMAND_BYTES: usize = 1024;

/// How long a client has to answer our close. Until then its input is read and dropped: unread bytes would reset
/// the connection and lose the last output.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// Pings detect a client that disconnected while the command reads no input and the socket is not read.
const HEARTBEAT: Duration = Duration::from_secs(15);

const NORMAL_END: CloseFrame = CloseFrame { code: close_code::NORMAL, reason: Utf8Bytes::from_static("") };
const TEXT_REFUSED: CloseFrame = CloseFrame {
    code: close_code::UNSUPPORTED,
    reason: Utf8Bytes::from_static("unexpected frame type read (expected MessageBinary): MessageText"),
};

type Sender = SplitSink<WebSocket, Message>;
type Receiver = SplitStream<WebSocket>;

/// Attaches the socket to the terminal until the client disconnects or the command ends; then closes with 1000,
/// independent of the exit code.
pub async fn serve_socket(socket: WebSocket, sessions: &PtySessions, reconnect: Uuid, spec: PtySpec) {
    let (mut sender, mut receiver) = socket.split();
    let mut end = NORMAL_END;
    if let Some(attachment) = attach(sessions, reconnect, &spec) {
        let input = attachment.input();
        tokio::select! {
            () = send_output(&mut sender, attachment) => {}
            ended = receive_input(&mut receiver, &input) => end = ended,
        }
    }
    close(sender, receiver, end).await;
}

fn attach(sessions: &PtySessions, reconnect: Uuid, spec: &PtySpec) -> Option<Attachment> {
    if matches!(&spec.command, PtyCommand::Script(script) if script.len() > MAX_COMMAND_BYTES) {
        return None;
    }
    let attached = sessions.attach(reconnect, spec);
    attached.inspect_err(|error| tracing::warn!(%error, "cannot open a terminal")).ok()
}

/// Ends with the command, or when the client does not read.
async fn send_output(sender: &mut Sender, mut attachment: Attachment) {
    let mut heartbeat = interval(HEARTBEAT);
    loop {
        let message = tokio::select! {
            chunk = attachment.output() => chunk.map(Message::Binary),
            _ = heartbeat.tick() => Some(Message::Ping(Bytes::new())),
        };
        let Some(message) = message else { return };
        if sender.send(message).await.is_err() {
            return;
        }
    }
}

/// Ends when the client closes or sends invalid input; returns the close frame.
async fn receive_input(receiver: &mut Receiver, input: &mpsc::Sender<PtyInput>) -> CloseFrame {
    while let Some(Ok(message)) = receiver.next().await {
        let parsed = match &message {
            Message::Binary(bytes) => input::parse(bytes),
            // Input is JSON, but a real server accepts it in binary frames only.
            Message::Text(_) => return TEXT_REFUSED,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => break,
        };
        let Ok(inputs) = parsed else { break };
        for part in inputs {
            // A closed queue means that the terminal has ended; its last output may still be in flight.
            input.send(part).await.ok();
        }
    }
    NORMAL_END
}

async fn close(mut sender: Sender, mut receiver: Receiver, frame: CloseFrame) {
    if sender.send(Message::Close(Some(frame))).await.is_ok() {
        let with_deadline = async { while let Some(Ok(_)) = receiver.next().await {} };
        timeout(CLOSE_LIMIT, with_deadline).await.ok();
    }
}
