//! The terminal of a workspace agent: how commands run inside a workspace.

use uuid::Uuid;

use super::operation::PTY_CONNECT;
use super::request::Request;
use super::socket::WebSocket;
use super::{Client, CoderError};

/// Which terminal to open or to attach to again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtyOptions {
    /// The same id attaches to the same terminal for five minutes after the last connection.
    pub reconnect: Uuid,
    pub width: u16,
    pub height: u16,
    /// At most about 1,000 bytes: a longer one fails without a word. Coder may log it, so no secrets.
    pub command: String,
    /// A container inside the workspace.
    pub container: Option<String>,
}

impl Client {
    /// Opens a terminal. Output arrives as binary messages, input goes as JSON `{"data": …}`, in binary
    /// messages too: text ends the connection. There is no exit code. The `screen` backend would change the output, so it is always the buffered one.
    pub async fn pty_connect(&self, agent: Uuid, options: &PtyOptions) -> Result<WebSocket, CoderError> {
        self.upgrade(pty_request(agent, options)).await
    }
}

fn pty_request(agent: Uuid, options: &PtyOptions) -> Request {
    Request::new(&PTY_CONNECT, &[&agent])
        .query("reconnect", options.reconnect)
        .query("width", options.width)
        .query("height", options.height)
        .query("backend_type", "buffered")
        .query("command", &options.command)
        .query_some("container", options.container.as_ref())
}
