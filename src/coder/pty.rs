//! The terminal of a workspace agent, through which commands run in a workspace.

use uuid::Uuid;

use super::operation::PTY_CONNECT;
use super::request::Request;
use super::socket::WebSocket;
use super::{Client, CoderError};

/// The terminal to open or to reattach to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtyOptions {
    /// The same id reattaches to the same terminal for five minutes after the last disconnect.
    pub reconnect: Uuid,
    pub width: u16,
    pub height: u16,
    /// At most about 1,000 bytes: servers silently drop longer ones. Coder may log it, so it must contain no
    /// secrets.
    pub command: String,
    /// A container inside the workspace.
    pub container: Option<String>,
}

impl Client {
    /// Opens a terminal. Output arrives as binary messages; input is JSON `{"data": …}`, also in binary messages,
    /// since text ends the connection. There is no exit code. Always uses the buffered backend: `screen` would
    /// alter the output.
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
