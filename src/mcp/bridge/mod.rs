//! The stdio bridge: forwards a client's JSON-RPC lines to the HTTP endpoint and relays the responses.
//!
//! It knows nothing of tools. Each input line becomes a POST, each message of the response an output line; the
//! bridge adds the credential, the client's directory, the headers of the protocol version, and an error if the server
//! is unreachable.

mod forward;
mod headers;
mod lines;
mod refusal;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::SecretString;
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use url::Url;

use crate::view::json;
use forward::Endpoint;
use lines::Line;

/// Messages that may wait for a slow reader of our output.
const OUTPUT_QUEUE: usize = 64;
const CANCELLED: &str = "notifications/cancelled";

#[derive(Debug)]
pub struct BridgeOptions {
    /// The endpoint, such as `http://127.0.0.1:3001/mcp`.
    pub url: Url,
    pub token: SecretString,
    /// The client's working directory.
    pub directory: PathBuf,
    /// Asked for the server's location when the endpoint does not answer.
    pub locator: Arc<dyn Locator>,
}

/// Locates the current server.
pub trait Locator: fmt::Debug + Send + Sync {
    fn locate(&self) -> ServerLocation;

    /// Advice for users if there is no server.
    fn remedy(&self) -> String;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerLocation {
    At(Url),
    /// It is starting or stopping; a later call returns more.
    Changing,
    Nowhere,
}

#[derive(Debug, Error)]
pub enum BridgeError {
    #[error("prepare the connection to the fleet server")]
    Setup(#[source] reqwest::Error),
    #[error("read from the client")]
    Read(#[source] std::io::Error),
    #[error("write to the client")]
    Write(#[source] std::io::Error),
}

/// Serves the client at our standard input and output until it closes its end.
pub async fn bridge(options: BridgeOptions) -> Result<(), BridgeError> {
    bridge_between(options, tokio::io::stdin(), tokio::io::stdout()).await
}

/// The same between any input and output.
pub async fn bridge_between(
    options: BridgeOptions,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> Result<(), BridgeError> {
    let (answers, queue) = mpsc::channel(OUTPUT_QUEUE);
    let endpoint = Arc::new(Endpoint::new(options).map_err(BridgeError::Setup)?);
    let session = Session { endpoint, answers, calls: JoinSet::new(), cancels: HashMap::new() };
    let written = async { lines::write_all(queue, output).await.map_err(BridgeError::Write) };
    // The queue closes when the session has dropped its last sender, so both end together or at the first error.
    tokio::try_join!(session.run(input), written).map(|((), ())| ())
}

/// One client and its calls in flight.
struct Session {
    endpoint: Arc<Endpoint>,
    answers: mpsc::Sender<String>,
    calls: JoinSet<()>,
    /// By the request's id, so that the client can cancel.
    cancels: HashMap<String, AbortHandle>,
}

impl Session {
    async fn run(mut self, input: impl AsyncRead + Unpin) -> Result<(), BridgeError> {
        let mut input = BufReader::new(input);
        loop {
            match lines::next(&mut input).await.map_err(BridgeError::Read)? {
                Line::End => break,
                Line::TooLong => self.answer(refusal::too_long()).await,
                Line::Text(text) => self.take(&text).await,
            }
        }
        // Requests that arrived before the end are still answered.
        drop(self.answers);
        while self.calls.join_next().await.is_some() {}
        Ok(())
    }

    async fn take(&mut self, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        match json::read(text) {
            Ok(message @ Value::Object(_)) => self.forward(message),
            Ok(_) => self.answer(refusal::not_a_message()).await,
            Err(error) => self.answer(refusal::unreadable(text, &error)).await,
        }
    }

    fn forward(&mut self, message: Value) {
        while self.calls.try_join_next().is_some() {}
        self.cancels.retain(|_, call| !call.is_finished());
        self.cancel_if_asked(&message);
        let id = message.get("id").filter(|_| message.get("method").is_some()).map(Value::to_string);
        let (endpoint, answers) = (Arc::clone(&self.endpoint), self.answers.clone());
        let call = self.calls.spawn(async move { endpoint.carry(message, &answers).await });
        if let Some(id) = id {
            self.cancels.insert(id, call);
        }
    }

    /// Closing the connection cancels a call: the server detects it in every version, and no response follows.
    fn cancel_if_asked(&mut self, message: &Value) {
        if message["method"] != CANCELLED {
            return;
        }
        if let Some(call) = self.cancels.remove(&message["params"]["requestId"].to_string()) {
            call.abort();
        }
    }

    async fn answer(&self, message: Value) {
        // A client that no longer reads ends the session on the writing side.
        let _gone = self.answers.send(message.to_string()).await;
    }
}
