//! The server's stream of changes, reopened after every break without missing a change.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use reqwest::Method;
use reqwest::header::{ACCEPT, HeaderValue};
use sse_stream::{Sse, SseStream};

use super::client::Client;
use super::error::CliError;
use super::globals::Globals;
use super::screen::Screen;
use crate::durations::Backoff;

const PAUSES: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

type EventStream = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// An event of the stream.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// Changes in order, each the JSON of one agent: everything that had arrived.
    Changes(Vec<String>),
    /// The stream was reopened.
    Reopened,
}

pub(crate) struct Events<'a> {
    globals: &'a Globals,
    screen: &'a Screen,
    open: EventStream,
    last_id: Option<String>,
}

impl<'a> Events<'a> {
    /// Opens the stream; an unreachable server is an error.
    pub(crate) async fn open(globals: &'a Globals, screen: &'a Screen) -> Result<Self, CliError> {
        let open = connect(&Client::connect(globals)?, None).await?;
        Ok(Self { globals, screen, open, last_id: None })
    }

    /// Waits for the next event, however long the server is unreachable; only a refusal ends it.
    pub(crate) async fn next(&mut self) -> Result<StreamEvent, CliError> {
        loop {
            match self.open.next().await {
                Some(Ok(event)) => {
                    let changes = self.with_all_that_arrived(event);
                    if !changes.is_empty() {
                        return Ok(StreamEvent::Changes(changes));
                    }
                }
                Some(Err(_)) | None => {
                    self.reopen().await?;
                    return Ok(StreamEvent::Reopened);
                }
            }
        }
    }

    /// A burst of changes is one event.
    fn with_all_that_arrived(&mut self, event: Sse) -> Vec<String> {
        let mut changes: Vec<String> = self.take(event).into_iter().collect();
        while let Some(Some(Ok(event))) = self.open.next().now_or_never() {
            changes.extend(self.take(event));
        }
        changes
    }

    fn take(&mut self, event: Sse) -> Option<String> {
        if let Some(id) = event.id {
            self.last_id = Some(id);
        }
        let is_agent = event.event.as_deref() == Some("agent");
        event.data.filter(|_| is_agent)
    }

    /// The server may return at another port, so it is looked up again each time.
    async fn reopen(&mut self) -> Result<(), CliError> {
        let mut n_failures = 0;
        loop {
            self.screen.hint("reconnecting");
            tokio::time::sleep(PAUSES.pause(n_failures)).await;
            match self.try_reopen().await {
                Ok(open) => {
                    self.open = open;
                    return Ok(());
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(_) => n_failures += 1,
            }
        }
    }

    async fn try_reopen(&self) -> Result<EventStream, CliError> {
        connect(&Client::connect(self.globals)?, self.last_id.as_deref()).await
    }
}

/// A refused token will stay refused.
fn is_final(error: &CliError) -> bool {
    matches!(error, CliError::Answered { body, .. } if !body.retryable)
}

async fn connect(client: &Client, last_id: Option<&str>) -> Result<EventStream, CliError> {
    let mut request = client
        .request(Method::GET, &["events"])
        .header(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(id) = last_id {
        request = request.header("Last-Event-ID", id);
    }
    let response = client.open(request).await?;
    Ok(Box::pin(SseStream::from_bytes_stream(response.bytes_stream())))
}
