//! A terminal in a workspace that runs a script and returns its output.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use super::ExecError;
use crate::coder::{Client, PtyOptions, WebSocket};

/// Printed when the terminal passes input on unchanged.
const READY: &[u8] = b"\x1eready\x1e";
/// Disables echo and newline translation, prints `READY`, and runs the input as a script. It is short, since
/// servers silently drop long commands, and quoted so that any login shell accepts it.
const BOOT: &str = r#"exec sh -c 'stty -echo -opost&&printf "\036ready\036"&&eval "$(cat)"'"#;
/// Below every server's limit on messages.
const INPUT_BYTES: usize = 16 * 1024;
/// How much of a shell's error message is kept.
const EXCERPT: usize = 300;
const END_OF_INPUT: &str = "\u{4}";

/// An open terminal that is ready for a script.
#[derive(Debug)]
pub(super) struct Terminal {
    socket: WebSocket,
    silence_limit: Duration,
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
        let limits = client.exec_limits();
        let socket = client.pty_connect(agent, &options).await?;
        let mut terminal = Self { socket, silence_limit: limits.silence };
        let late = Err(ExecError::cut("the workspace's terminal did not become ready"));
        timeout(limits.ready, terminal.until_ready()).await.unwrap_or(late)?;
        Ok(terminal)
    }

    /// Sends a whole script, which then runs.
    pub(super) async fn run(&mut self, script: &str) -> Result<(), ExecError> {
        for part in script.as_bytes().chunks(INPUT_BYTES) {
            // Scripts are plain ASCII, so they may be split anywhere.
            self.send(&String::from_utf8_lossy(part)).await?;
        }
        self.send(END_OF_INPUT).await
    }

    /// Sends input to a running script. In a binary frame: Coder closes the connection on text frames.
    pub(super) async fn send(&mut self, data: &str) -> Result<(), ExecError> {
        let frame = Message::binary(json!({ "data": data }).to_string().into_bytes());
        let sent = timeout(self.silence_limit, self.socket.send(frame)).await;
        sent.map_err(|_| silence())?.map_err(|error| ExecError::cut(error.to_string()))
    }

    /// The next output; none once the script has ended.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ExecError> {
        loop {
            let message = timeout(self.silence_limit, self.socket.next()).await.map_err(|_| silence())?;
            match message.transpose().map_err(|error| ExecError::cut(error.to_string()))? {
                Some(Message::Binary(bytes)) => return Ok(Some(bytes)),
                Some(Message::Close(_)) | None => return Ok(None),
                Some(Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
            }
        }
    }

    /// Closes properly, so that the last message is read; the response is ignored.
    pub(super) async fn close(mut self) {
        let _gone = timeout(self.silence_limit, self.socket.close(None)).await;
    }

    async fn until_ready(&mut self) -> Result<(), ExecError> {
        let mut output = Vec::new();
        while let Some(bytes) = self.next().await? {
            output.extend_from_slice(&bytes);
            if output.windows(READY.len()).any(|window| window == READY) {
                return Ok(());
            }
        }
        let reason = String::from_utf8_lossy(&output).trim().chars().take(EXCERPT).collect();
        Err(ExecError::Terminal { reason })
    }
}

fn silence() -> ExecError {
    ExecError::cut("the server sends no data")
}
