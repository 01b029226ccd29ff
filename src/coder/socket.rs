//! WebSockets over the same HTTP stack as all other calls, so that proxies, certificates and limits agree.

use http::{HeaderMap, StatusCode, header};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use tokio_tungstenite::tungstenite::protocol::Role;

use super::request::Request;
use super::{Client, CoderError};

/// An open connection; callers exchange tungstenite messages.
pub type WebSocket = WebSocketStream<reqwest::Upgraded>;

impl Client {
    /// Opens a WebSocket. Retried only if the request was never sent or hit the rate limit.
    pub(super) async fn upgrade(&self, request: Request) -> Result<WebSocket, CoderError> {
        let operation = request.operation.name;
        let key = generate_key();
        let request = request.websocket(key.clone());
        let open = || self.open(&self.shared.http1, &request, StatusCode::SWITCHING_PROTOCOLS);
        let response = self.attempts(&request, open).await?;
        check_accept(operation, &key, response.headers())?;
        let socket = response.upgrade().await.map_err(|error| CoderError::transport(operation, error))?;
        Ok(WebSocketStream::from_raw_socket(socket, Role::Client, None).await)
    }
}

/// Proves that the server has read our key and is no cache that repeats an old response.
fn check_accept(operation: &'static str, key: &str, headers: &HeaderMap) -> Result<(), CoderError> {
    let accept = headers.get(header::SEC_WEBSOCKET_ACCEPT).map(|accept| accept.as_bytes());
    if accept == Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        return Ok(());
    }
    Err(CoderError::Undecodable {
        operation,
        status: StatusCode::SWITCHING_PROTOCOLS.as_u16(),
        reason: "the WebSocket handshake does not match".to_owned(),
        body: String::new(),
    })
}
