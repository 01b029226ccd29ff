//! Forwards one message: posts it to the endpoint and relays the messages of the response as they arrive.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::StreamExt;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::Response;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sse_stream::SseStream;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use url::Url;

use super::{BridgeOptions, Locator, ServerLocation, headers, refusal};
use crate::address::is_loopback;
use crate::domain::directory::{HEADER, encode};
use crate::domain::text::cut;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Detects a server that disappeared silently; responses themselves may take long.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// How long a call waits for a server that is being restarted.
const RESTART_LIMIT: Duration = Duration::from_secs(20);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const SHOWN_BODY_CHARS: usize = 200;
const NO_CONNECTIONS: usize = 0;

/// The server and the negotiated protocol version.
#[derive(Debug)]
pub(super) struct Endpoint {
    http: reqwest::Client,
    url: RwLock<Url>,
    locator: Arc<dyn Locator>,
    token: SecretString,
    directory: String,
    negotiated: RwLock<Option<String>>,
}

impl Endpoint {
    pub(super) fn new(options: BridgeOptions) -> Result<Self, reqwest::Error> {
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(TCP_KEEPALIVE);
        // On loopback a new connection is cheap and distinguishes a crashed server from an unresponsive one: an
        // unsent request may be sent again.
        let builder = if is_loopback(&options.url) {
            builder.no_proxy().pool_max_idle_per_host(NO_CONNECTIONS)
        } else {
            builder
        };
        let BridgeOptions { url, token, directory, locator } = options;
        Ok(Self {
            http: builder.build()?,
            url: RwLock::new(url),
            locator,
            token,
            directory: encode(&directory),
            negotiated: RwLock::new(None),
        })
    }

    /// Posts a message and relays the response; a request always gets exactly one response.
    pub(super) async fn carry(&self, message: Value, answers: &Sender<String>) {
        let is_request = message.get("method").is_some();
        let id = message.get("id").filter(|_| is_request).cloned();
        let failure = match self.deliver(&message).await {
            Ok(response) => self.relay(response, id.as_ref(), answers).await,
            Err(error) if error.is_connect() => {
                id.as_ref().map(|id| refusal::unreachable(id, &self.url(), &self.locator.remedy()))
            }
            Err(_) => id.as_ref().map(refusal::lost),
        };
        if let Some(failure) = failure {
            send(answers, &failure).await;
        }
    }

    /// Posts to the server's current URL; during a restart nothing has been sent, so a retry is safe.
    async fn deliver(&self, message: &Value) -> Result<Response, reqwest::Error> {
        let deadline = Instant::now() + RESTART_LIMIT;
        loop {
            let url = self.url();
            let error = match self.post(url.clone(), message).await {
                Err(error) if error.is_connect() => error,
                answer => return answer,
            };
            match self.locator.locate() {
                ServerLocation::Nowhere => return Err(error),
                ServerLocation::At(_) | ServerLocation::Changing if Instant::now() >= deadline => {
                    return Err(error);
                }
                ServerLocation::At(moved) if moved != url => self.move_to(moved),
                ServerLocation::At(_) | ServerLocation::Changing => tokio::time::sleep(LOOK_INTERVAL).await,
            }
        }
    }

    fn url(&self) -> Url {
        self.url.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn move_to(&self, url: Url) {
        *self.url.write().unwrap_or_else(PoisonError::into_inner) = url;
    }

    async fn post(&self, url: Url, message: &Value) -> Result<Response, reqwest::Error> {
        let negotiated = self.negotiated.read().unwrap_or_else(PoisonError::into_inner).clone();
        let request = self.http.post(url).bearer_auth(self.token.expose_secret());
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        let request = request.header(HEADER, &self.directory);
        request.headers(headers::of(message, negotiated.as_deref())).json(message).send().await
    }

    /// Relays the messages of a response; returns an error of our own if the request did not get one.
    async fn relay(&self, response: Response, id: Option<&Value>, answers: &Sender<String>) -> Option<Value> {
        let status = response.status();
        if is_event_stream(&response) {
            return self.relay_events(response, id, answers).await;
        }
        let Ok(body) = response.text().await else { return id.map(refusal::lost) };
        match serde_json::from_str::<Value>(&body) {
            Ok(message) if message.get("jsonrpc").is_some() => {
                self.note_version(&message);
                send(answers, &message).await;
                None
            }
            Ok(_) | Err(_) if status == StatusCode::UNAUTHORIZED => id.map(refusal::unauthenticated),
            Ok(_) | Err(_) => {
                id.map(|id| refusal::unexpected(id, status.as_u16(), &cut(&body, SHOWN_BODY_CHARS)))
            }
        }
    }

    async fn relay_events(
        &self,
        response: Response,
        id: Option<&Value>,
        answers: &Sender<String>,
    ) -> Option<Value> {
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        while let Some(Ok(event)) = events.next().await {
            let Ok(message) = serde_json::from_str::<Value>(&event.data.unwrap_or_default()) else {
                continue;
            };
            self.note_version(&message);
            let is_answer = message.get("method").is_none() && message.get("id") == id;
            send(answers, &message).await;
            if is_answer {
                return None;
            }
        }
        id.map(refusal::lost)
    }

    /// The older version is negotiated once, in the response to `initialize`.
    fn note_version(&self, message: &Value) {
        if let Some(version) = message["result"]["protocolVersion"].as_str() {
            let mut negotiated = self.negotiated.write().unwrap_or_else(PoisonError::into_inner);
            *negotiated = Some(version.to_owned());
        }
    }
}

async fn send(answers: &Sender<String>, message: &Value) {
    // A client that no longer reads ends the session on the writing side.
    let _gone = answers.send(message.to_string()).await;
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}
