//! The only place where requests meet the network: one attempt, with its response read and decoded.

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http::{HeaderMap, StatusCode, header};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use tracing::{Instrument, Span, field};

use super::answer::{Answer, excerpt};
use super::credential::{Credential, scrub};
use super::request::Request;
use super::{Client, CoderError};

/// Above the size of any expected response.
const BODY_LIMIT: usize = 64 << 20;

/// A whole response in memory.
#[derive(Debug)]
pub(super) struct Reply {
    operation: &'static str,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    secret: Option<SecretString>,
}

impl Client {
    /// Sends a request and decodes its response, with retries where they are safe.
    pub(super) async fn call<T: DeserializeOwned>(&self, request: Request) -> Result<T, CoderError> {
        self.attempts(&request, || async { self.exchange(&request).await?.success()?.decode() }).await
    }

    /// Like `call` for a list, which Go writes as `null` when it is empty.
    pub(super) async fn call_list<T: DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<Vec<T>, CoderError> {
        Ok(self.call::<Option<Vec<T>>>(request).await?.unwrap_or_default())
    }

    /// Like `call`, for responses without content.
    pub(super) async fn call_done(&self, request: Request) -> Result<(), CoderError> {
        self.attempts(&request, || async { self.exchange(&request).await?.success().map(drop) }).await
    }

    /// Runs one call: all its attempts share one span and follow the retry policy.
    pub(super) async fn attempts<T, F, Fut>(&self, request: &Request, send: F) -> Result<T, CoderError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, CoderError>>,
    {
        let span = tracing::debug_span!(
            "coder",
            coder.operation = request.operation.name,
            http.method = %request.method,
            http.path = request.path,
            http.status = field::Empty,
        );
        let sent = self.shared.retry.run(request.effect, send).instrument(span).await;
        sent.map_err(|error| error.with_token_origin(self.token_origin(request)))
    }

    /// One attempt whose response is read to its end, whatever its status.
    pub(super) async fn exchange(&self, request: &Request) -> Result<Reply, CoderError> {
        self.shared.limit.pass(&request.path).await;
        let (builder, secret) = self.prepare(&self.shared.http, request)?;
        self.in_time(request, async {
            let response = respond(request, builder).await?;
            Reply::read(request, response, secret).await
        })
        .await
    }

    /// One attempt that returns the head of its response, with the body still to come; a failure is read and
    /// returned.
    pub(super) async fn open(
        &self,
        http: &reqwest::Client,
        request: &Request,
        expected: StatusCode,
    ) -> Result<reqwest::Response, CoderError> {
        self.shared.limit.pass(&request.path).await;
        let (builder, secret) = self.prepare(http, request)?;
        self.in_time(request, async {
            let response = respond(request, builder).await?;
            if response.status() == expected {
                return Ok(response);
            }
            let reply = Reply::read(request, response, secret).await?.success()?;
            Err(reply.undecodable("unexpected success status"))
        })
        .await
    }

    fn prepare(
        &self,
        http: &reqwest::Client,
        request: &Request,
    ) -> Result<(reqwest::RequestBuilder, Option<SecretString>), CoderError> {
        let mut builder = http.request(request.method.clone(), request.url(self.url())?);
        let credential = self.credential(request)?;
        if let Some(Credential { name, value, .. }) = &credential {
            builder = builder.header(name, value);
        }
        if let Some(key) = &request.websocket_key {
            builder = builder
                .header(header::CONNECTION, "Upgrade")
                .header(header::UPGRADE, "websocket")
                .header(header::SEC_WEBSOCKET_VERSION, "13")
                .header(header::SEC_WEBSOCKET_KEY, key);
        }
        if let Some(body) = &request.body {
            builder = builder.header(header::CONTENT_TYPE, "application/json").body(body.clone());
        }
        Ok((builder, credential.map(|credential| credential.secret)))
    }

    /// The deadline covers one attempt, without the preceding wait for our own rate limit.
    async fn in_time<T>(
        &self,
        request: &Request,
        work: impl Future<Output = Result<T, CoderError>>,
    ) -> Result<T, CoderError> {
        let late = CoderError::Timeout { operation: request.operation.name };
        tokio::time::timeout(self.shared.timeout, work).await.unwrap_or(Err(late))
    }
}

impl Reply {
    async fn read(
        request: &Request,
        response: reqwest::Response,
        secret: Option<SecretString>,
    ) -> Result<Self, CoderError> {
        let operation = request.operation.name;
        let too_large = || CoderError::TooLarge { operation, limit: BODY_LIMIT };
        if response.content_length().is_some_and(|announced| announced > BODY_LIMIT as u64) {
            return Err(too_large());
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let chunks = response.bytes_stream().map_err(|error| CoderError::transport(operation, error));
        let body = collect(chunks, BODY_LIMIT).await?.ok_or_else(too_large)?;
        Ok(Self { operation, status, headers, body, secret })
    }

    /// Turns every status but 2xx into an error.
    pub(super) fn success(self) -> Result<Self, CoderError> {
        if self.status.is_success() { Ok(self) } else { Err(self.refusal()) }
    }

    pub(super) fn refusal(&self) -> CoderError {
        CoderError::Answered(Box::new(Answer::read(self.operation, self.status, &self.headers, &self.text())))
    }

    fn decode<T: DeserializeOwned>(&self) -> Result<T, CoderError> {
        let mut json = serde_json::Deserializer::from_slice(&self.body);
        let value = serde_path_to_error::deserialize(&mut json);
        let value = value.map_err(|error| self.undecodable(&error.to_string()))?;
        json.end().map_err(|error| self.undecodable(&error.to_string()))?;
        Ok(value)
    }

    fn undecodable(&self, reason: &str) -> CoderError {
        CoderError::Undecodable {
            operation: self.operation,
            status: self.status.as_u16(),
            reason: scrub(reason, self.secret.as_ref()),
            body: excerpt(&self.text()),
        }
    }

    fn text(&self) -> String {
        scrub(&String::from_utf8_lossy(&self.body), self.secret.as_ref())
    }
}

async fn respond(
    request: &Request,
    builder: reqwest::RequestBuilder,
) -> Result<reqwest::Response, CoderError> {
    let sent = builder.send().await;
    let response = sent.map_err(|error| CoderError::transport(request.operation.name, error))?;
    Span::current().record("http.status", response.status().as_u16());
    Ok(response)
}

/// The whole body; none if it exceeds the limit.
async fn collect<E>(chunks: impl Stream<Item = Result<Bytes, E>>, limit: usize) -> Result<Option<Bytes>, E> {
    let mut chunks = std::pin::pin!(chunks);
    let mut body = Vec::new();
    while let Some(chunk) = chunks.try_next().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body.into()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt, stream};

    use super::{Bytes, collect};

    #[tokio::test]
    async fn bodies_are_cut_off_at_the_limit() {
        let chunks =
            || stream::iter([b"abc", b"def"]).map(|chunk| Ok::<_, Infallible>(Bytes::from_static(chunk)));
        assert_eq!(collect(chunks(), 6).await, Ok(Some(Bytes::from_static(b"abcdef"))));
        assert_eq!(collect(chunks(), 5).await, Ok(None));
    }
}
