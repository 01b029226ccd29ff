//! The typed client of a Coder server; it knows nothing of fleets.
//!
//! Each call is a plain `request`, one `send` in a `retry` under a `limit`, and a `wire` type. The resource files
//! hold a few lines per call.

mod agents;
mod answer;
mod apps;
mod builds;
mod credential;
mod deployment;
mod error;
mod events;
pub mod exec;
mod limit;
mod operation;
mod pty;
mod request;
mod retry;
mod send;
mod socket;
mod templates;
pub mod wire;
mod workspaces;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::address::is_loopback;

pub use answer::{Answer, Validation};
pub use apps::{AppAddress, AppReply, AppRequest};
pub use credential::TokenOrigin;
pub use error::{CoderError, ErrorKind, Outcome};
pub use operation::{OPERATIONS, Operation};
pub use pty::PtyOptions;
pub use retry::RetryPolicy;
pub use socket::WebSocket;
pub use workspaces::{Deleted, Page, Undecodable, WorkspacePage, WorkspaceQuery};

use exec::ExecLimits;
use limit::Limit;

/// Time limit for connecting, independent of the timeout of the whole call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Detects a peer that disappeared silently below a long stream.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// How to reach one Coder deployment.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    pub url: Url,
    pub token: SecretString,
    pub token_origin: TokenOrigin,
    /// For one attempt; for a stream or a WebSocket, for its opening.
    pub timeout: Duration,
    /// Per exact path. Coder allows 512, shared by all clients of the same user.
    pub requests_per_minute: NonZeroU32,
    pub retry: RetryPolicy,
    pub exec: ExecLimits,
}

/// A client of one Coder deployment; clones share connections, limits and token.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    url: Url,
    token: ArcSwap<SecretString>,
    token_origin: TokenOrigin,
    timeout: Duration,
    retry: RetryPolicy,
    exec: ExecLimits,
    limit: Limit,
    http: reqwest::Client,
    /// WebSockets require HTTP/1.1: an HTTP/2 connection cannot be upgraded.
    http1: reqwest::Client,
}

impl Client {
    pub fn new(options: ClientOptions) -> Result<Self, CoderError> {
        check_url(&options.url)?;
        credential::check_token(&options.token)?;
        let shared = Shared {
            http: build(http_client(&options))?,
            http1: build(http_client(&options).http1_only())?,
            url: options.url,
            token: ArcSwap::from_pointee(options.token),
            token_origin: options.token_origin,
            timeout: options.timeout,
            retry: options.retry,
            exec: options.exec,
            limit: Limit::new(options.requests_per_minute),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub fn url(&self) -> &Url {
        &self.shared.url
    }

    /// Replaces the token from the next attempt of any call on, including those of clones.
    pub fn token_replace(&self, token: SecretString) {
        self.shared.token.store(Arc::new(token));
    }

    /// Whether these bytes contain the token.
    pub fn token_is_in(&self, bytes: &[u8]) -> bool {
        let token = self.token();
        let token = token.expose_secret().as_bytes();
        bytes.windows(token.len()).any(|window| window == token)
    }

    fn exec_limits(&self) -> ExecLimits {
        self.shared.exec
    }

    fn token(&self) -> SecretString {
        SecretString::from(self.shared.token.load().expose_secret())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.shared.url.as_str()).finish_non_exhaustive()
    }
}

fn check_url(url: &Url) -> Result<(), CoderError> {
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    let web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if plain && web {
        return Ok(());
    }
    Err(CoderError::Setup {
        reason: "the URL must be http(s)://host without user, password or query".to_owned(),
    })
}

/// No cookie store, since Coder prefers its cookie over our header; no redirects, since they would carry the token
/// elsewhere; no proxy for a local server; no root certificates without TLS.
fn http_client(options: &ClientOptions) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder()
        .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT.min(options.timeout / 2))
        .tcp_keepalive(TCP_KEEPALIVE);
    let builder = if is_loopback(&options.url) { builder.no_proxy() } else { builder };
    if options.url.scheme() == "http" { builder.tls_certs_only([]) } else { builder }
}

fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, CoderError> {
    builder.build().map_err(|error| CoderError::Setup { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::{
        Client, ClientOptions, Duration, ErrorKind, ExecLimits, NonZeroU32, RetryPolicy, TokenOrigin, Url,
    };

    fn options(url: &str, token: &str) -> ClientOptions {
        ClientOptions {
            url: Url::parse(url).unwrap(),
            token: token.into(),
            token_origin: TokenOrigin::Environment,
            timeout: Duration::from_secs(1),
            requests_per_minute: NonZeroU32::MIN,
            retry: RetryPolicy {
                attempts: NonZeroU32::MIN,
                base_delay: Duration::ZERO,
                max_delay: Duration::ZERO,
            },
            exec: ExecLimits::NORMAL,
        }
    }

    #[test]
    fn unusable_addresses_and_tokens_are_refused_at_once() {
        for url in
            ["ftp://coder.example", "http://user:pw@coder.example", "http://coder.example/?a=b", "data:x"]
        {
            let error = Client::new(options(url, "token")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setup, "{url}");
        }
        for token in ["", "two\nlines", "a;b", "a b", "é"] {
            let error = Client::new(options("http://coder.example", token)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setup, "{token}");
        }
    }

    #[test]
    fn debug_output_names_the_deployment_and_no_token() {
        let client = Client::new(options("http://coder.example", "canary")).unwrap();
        assert_eq!(format!("{client:?}"), r#"Client { url: "http://coder.example/", .. }"#);
    }
}
