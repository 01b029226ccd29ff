//! One terminal in a workspace that takes a script and gives back what that prints.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use super::ExecError;
use crate::coder::{Client, PtyOptions, WebSocket};

/// What the terminal prints when it takes input as it is.
const READY: &[u8] = b"\x1eready\x1e";
/// Switches echo and newline translation off, says so, and runs what comes until the end of input. It is short,
/// because longer ones fail without a word, and quoted so that any login shell passes it on.
const BOOT: &str = r#"exec sh -c 'stty -echo -opost&&printf "\036ready\036"&&eval "$(cat)"'"#;
/// The first call to a workspace's agent may have to find a way to it.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// A server that says nothing for so long, not even a heartbeat, is gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(45);
/// Below every limit on messages that servers have.
const INPUT_BYTES: usize = 16 * 1024;
/// How much of a shell's complaint is kept.
const EXCERPT: usize = 300;
const END_OF_INPUT: &str = "\u{4}";

/// An open terminal that is ready for a script.
#[derive(Debug)]
pub(super) struct Terminal {
    socket: WebSocket,
}

impl Terminal {
    pub(super) async fn open(
        client: &Client,
        agent: Uuid,
        container: Option<&str>,
    ) -> Result<Self, ExecError> {
        let options = PtyOptions {
            reconnect: Uuid::new_v4(),
            width: 80,
            height: 24,
            command: BOOT.to_owned(),
            container: container.map(str::to_owned),
        };
        let mut terminal = Self { socket: client.pty_connect(agent, &options).await? };
        let late = Err(ExecError::cut("the workspace's terminal did not get ready"));
        timeout(READY_LIMIT, terminal.until_ready()).await.unwrap_or(late)?;
        Ok(terminal)
    }

    /// Sends a whole script, which then runs.
    pub(super) async fn run(&mut self, script: &str) -> Result<(), ExecError> {
        for part in script.as_bytes().chunks(INPUT_BYTES) {
            // Scripts are plain ASCII, so they may be cut anywhere.
            self.send(&String::from_utf8_lossy(part)).await?;
        }
        self.send(END_OF_INPUT).await
    }

    /// Sends input to a script that runs. A text frame would end the connection: Coder takes binary ones.
    pub(super) async fn send(&mut self, data: &str) -> Result<(), ExecError> {
        let frame = Message::binary(json!({ "data": data }).to_string().into_bytes());
        let sent = timeout(SILENCE_LIMIT, self.socket.send(frame)).await;
        sent.map_err(ExecError::cut)?.map_err(ExecError::cut)
    }

    /// The next output, or nothing when the script has ended.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ExecError> {
        loop {
            let message = timeout(SILENCE_LIMIT, self.socket.next()).await.map_err(ExecError::cut)?;
            match message.transpose().map_err(ExecError::cut)? {
                Some(Message::Binary(bytes)) => return Ok(Some(bytes)),
                Some(Message::Close(_)) | None => return Ok(None),
                Some(Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            }
        }
    }

    /// Says goodbye, so that what was sent last is read; the answer does not matter.
    pub(super) async fn close(mut self) {
        let _gone = timeout(SILENCE_LIMIT, self.socket.close(None)).await;
    }

    async fn until_ready(&mut self) -> Result<(), ExecError> {
        let mut said = Vec::new();
        while let Some(bytes) = self.next().await? {
            said.extend_from_slice(&bytes);
            if said.windows(READY.len()).any(|window| window == READY) {
                return Ok(());
            }
        }
        let reason = String::from_utf8_lossy(&said).trim().chars().take(EXCERPT).collect();
        Err(ExecError::Terminal { reason })
    }
}
