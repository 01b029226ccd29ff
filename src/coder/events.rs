//! Server-sent events: opening a stream and reading it as typed items.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http::{StatusCode, header};
use serde::de::DeserializeOwned;
use sse_stream::{Sse, SseStream};

use super::answer::{Answer, excerpt};
use super::request::Request;
use super::{Client, CoderError};

/// The limit on a single event; agents write some of these streams and could otherwise fill our memory.
const EVENT_LIMIT: usize = 16 << 20;

/// Items as they arrive. Ends when the server ends it, and after the first broken connection.
pub(super) type EventStream<T> = Pin<Box<dyn Stream<Item = Result<T, CoderError>> + Send>>;

impl Client {
    /// Opens a stream of events. Opening is retried like any read; an open stream is not.
    pub(super) async fn events(&self, request: Request) -> Result<EventStream<Sse>, CoderError> {
        let operation = request.operation.name;
        let open = || self.open(&self.shared.http, &request, StatusCode::OK);
        let response = self.attempts(&request, open).await?;
        check_content_type(operation, &response)?;
        let chunks = response.bytes_stream().map_err(move |error| CoderError::transport(operation, error));
        Ok(parse(operation, chunks))
    }
}

/// Decodes the data of an event; an event of type `error` carries Coder's usual error body.
pub(super) fn decode<T: DeserializeOwned>(operation: &'static str, event: &Sse) -> Result<T, CoderError> {
    let data = event.data.as_deref().unwrap_or_default();
    if event.event.as_deref() == Some("error") {
        // An error event has no status; it is treated as a failure of the server.
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        return Err(CoderError::Answered(Box::new(Answer::read(
            operation,
            status,
            &http::HeaderMap::new(),
            data,
        ))));
    }
    serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(data)).map_err(|error| {
        let status = StatusCode::OK.as_u16();
        CoderError::Undecodable { operation, status, reason: error.to_string(), body: excerpt(data) }
    })
}

fn check_content_type(operation: &'static str, response: &reqwest::Response) -> Result<(), CoderError> {
    let kind =
        response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("text/event-stream") {
        return Ok(());
    }
    let reason = format!("an event stream was expected, not {kind:?}");
    Err(CoderError::Undecodable {
        operation,
        status: response.status().as_u16(),
        reason,
        body: String::new(),
    })
}

fn parse(
    operation: &'static str,
    chunks: impl Stream<Item = Result<Bytes, CoderError>> + Send + 'static,
) -> EventStream<Sse> {
    let events = SseStream::from_bytes_stream(bounded(operation, chunks, EVENT_LIMIT));
    let mut broken = false;
    let until_broken = events.take_while(move |event| {
        let already = broken;
        broken |= event.is_err();
        std::future::ready(!already)
    });
    Box::pin(until_broken.map_err(move |error| unwrap_cause(operation, error)))
}

/// Fails once more than `limit` bytes have arrived without the blank line that ends an event.
fn bounded(
    operation: &'static str,
    chunks: impl Stream<Item = Result<Bytes, CoderError>>,
    limit: usize,
) -> impl Stream<Item = Result<Bytes, CoderError>> {
    let mut pending = 0;
    chunks.map(move |chunk| {
        let chunk = chunk?;
        let ends_event = [b"\n\n".as_slice(), b"\r\n\r\n"].iter().any(|end| contains(&chunk, end));
        pending = if ends_event { 0 } else { pending + chunk.len() };
        if pending > limit { Err(CoderError::TooLarge { operation, limit }) } else { Ok(chunk) }
    })
}

fn contains(chunk: &[u8], end: &[u8]) -> bool {
    chunk.windows(end.len()).any(|window| window == end)
}

/// The parser wraps our own errors; this unwraps them.
fn unwrap_cause(operation: &'static str, error: sse_stream::Error) -> CoderError {
    match error {
        sse_stream::Error::Body(cause) => match cause.downcast::<CoderError>() {
            Ok(cause) => *cause,
            Err(cause) => CoderError::Cut { operation, reason: cause.to_string() },
        },
        other => CoderError::Undecodable {
            operation,
            status: StatusCode::OK.as_u16(),
            reason: other.to_string(),
            body: String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::{Bytes, CoderError, Sse, StreamExt, bounded, decode, parse};
    use crate::coder::ErrorKind;

    fn chunks(parts: &[&'static str]) -> impl futures_util::Stream<Item = Result<Bytes, CoderError>> + use<> {
        let parts: Vec<_> = parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes()))).collect();
        stream::iter(parts)
    }

    #[tokio::test]
    async fn events_may_be_split_anywhere() {
        let parts = ["event: pi", "ng\n\nevent: data\nda", "ta: [1]\n", "\nevent: data\ndata: [2]\n\n"];
        let events: Vec<_> = parse("x", chunks(&parts)).map(|event| event.unwrap()).collect().await;
        let data = |data: &str| Sse::default().event("data").data(data);
        assert_eq!(events, [Sse::default().event("ping"), data("[1]"), data("[2]")]);
    }

    #[tokio::test]
    async fn a_broken_connection_is_told_once_and_ends_the_stream() {
        let cut = CoderError::Cut { operation: "x", reason: "gone".to_owned() };
        let broken = chunks(&["data: 1\n\n"]).chain(stream::iter([Err(cut)])).chain(chunks(&["data: 2\n\n"]));
        let kinds: Vec<_> =
            parse("x", broken).map(|event| event.map_err(|error| error.kind())).collect().await;
        assert_eq!(kinds, [Ok(Sse::default().data("1")), Err(ErrorKind::Cut)]);
    }

    #[tokio::test]
    async fn an_endless_event_is_refused() {
        let endless = chunks(&["data: 1\n\n", "12345", "67890", "x"]);
        let sizes: Vec<_> =
            bounded("x", endless, 10).map(|chunk| chunk.ok().map(|chunk| chunk.len())).collect().await;
        assert_eq!(sizes, [Some(9), Some(5), Some(5), None]);
    }

    #[test]
    fn an_error_event_is_a_failing_server() {
        let event = Sse::default().event("error").data(r#"{"message":"Internal error fetching workspace."}"#);
        let error = decode::<u8>("workspace_watch", &event).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Server);
        assert_eq!(
            error.to_string(),
            "workspace_watch: Coder answered 500: Internal error fetching workspace."
        );
    }
}
