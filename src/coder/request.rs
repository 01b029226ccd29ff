//! Requests as plain values, built without I/O so that tests can compare them.

use std::fmt::Display;

use http::Method;
use secrecy::SecretString;
use serde::Serialize;
use url::Url;

use super::error::CoderError;
use super::operation::Operation;

/// One request, without the deployment's address and our token.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) operation: &'static Operation,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) auth: Auth,
    pub(super) effect: Effect,
    /// The key of a WebSocket handshake, if the connection is to be upgraded.
    pub(super) websocket_key: Option<String>,
}

/// Which credential is sent, and how.
#[derive(Debug, Clone)]
pub(super) enum Auth {
    None,
    /// Our session token as a header, as everywhere under `/api`: a cookie there would take precedence over the
    /// header and trip the CSRF check.
    SessionHeader,
    /// Our session token as a cookie, as at the app proxy: Coder strips its cookies but forwards every header into
    /// the workspace, where the agent could read it.
    SessionCookie,
    /// A workspace agent's own token.
    Agent(SecretString),
}

/// Whether repeating the request may repeat an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    Write,
}

impl Request {
    /// A request with the operation's default method; `values` fill the placeholders of its path in order.
    pub(super) fn new(operation: &'static Operation, values: &[&(dyn Display + Sync)]) -> Self {
        Self::at(operation, fill(operation.path, values))
    }

    /// A request to an already encoded path.
    pub(super) fn at(operation: &'static Operation, path: String) -> Self {
        let request = Self {
            operation,
            method: Method::GET,
            path,
            query: Vec::new(),
            body: None,
            auth: Auth::SessionHeader,
            effect: Effect::Read,
            websocket_key: None,
        };
        request.method(operation.methods.first().cloned().unwrap_or_default())
    }

    pub(super) fn method(mut self, method: Method) -> Self {
        self.effect = if method == Method::GET { Effect::Read } else { Effect::Write };
        self.method = method;
        self
    }

    pub(super) fn query(mut self, key: impl Into<String>, value: impl Display) -> Self {
        self.query.push((key.into(), value.to_string()));
        self
    }

    pub(super) fn query_some(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.query(key, value),
            None => self,
        }
    }

    pub(super) fn json(mut self, body: &impl Serialize) -> Result<Self, CoderError> {
        let bytes = serde_json::to_vec(body)
            .map_err(|error| CoderError::request(self.operation.name, error.to_string()))?;
        self.body = Some(bytes);
        Ok(self)
    }

    pub(super) fn auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    /// Requests a WebSocket. Opening one may have an effect, such as starting a command, so it counts as a write.
    pub(super) fn websocket(mut self, key: String) -> Self {
        self.effect = Effect::Write;
        self.websocket_key = Some(key);
        self
    }

    /// The full address. A segment such as `..` would be normalized away and reach another path with our token, so
    /// paths that do not survive unchanged are refused.
    pub(super) fn url(&self, deployment: &Url) -> Result<Url, CoderError> {
        let mut url = deployment.clone();
        let path = format!("{}{}", deployment.path().trim_end_matches('/'), self.path);
        url.set_path(&path);
        self.require(url.path() == path, "the path is not usable in a URL")?;
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }

    fn require(&self, holds: bool, reason: &str) -> Result<(), CoderError> {
        if holds { Ok(()) } else { Err(CoderError::request(self.operation.name, reason.to_owned())) }
    }
}

/// Encodes each segment of a path and keeps the slashes; the result starts with a slash.
pub(super) fn encode_path(path: &str) -> String {
    let segments: Vec<String> = path.trim_start_matches('/').split('/').map(encode_segment).collect();
    format!("/{}", segments.join("/"))
}

/// Fills the template's placeholders. A missing value leaves its placeholder, which `url` then refuses.
pub(super) fn fill(template: &str, values: &[&(dyn Display + Sync)]) -> String {
    let mut values = values.iter();
    let segments = template.split('/').map(|segment| match segment.split_once('{') {
        Some((prefix, _)) => values
            .next()
            .map_or(segment.to_owned(), |value| prefix.to_owned() + &encode_segment(&value.to_string())),
        None => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}

fn encode_segment(segment: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let encode = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    segment.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::{Effect, Method, Request, Url, encode_path};
    use crate::coder::operation::{
        BUILD_CREATE, PTY_CONNECT, TEMPLATE_BY_NAME, WORKSPACE_BY_NAME, WORKSPACES,
    };
    use crate::coder::wire::CreateBuild;

    fn deployment() -> Url {
        Url::parse("https://coder.example:8443/").unwrap()
    }

    #[test]
    fn build_request_is_method_path_and_bytes() {
        let id = uuid::Uuid::nil();
        let request = Request::new(&BUILD_CREATE, &[&id]).json(&CreateBuild::restart()).unwrap();
        assert_eq!((&request.method, request.effect), (&Method::POST, Effect::Write));
        assert_eq!(
            request.url(&deployment()).unwrap().as_str(),
            "https://coder.example:8443/api/v2/workspaces/00000000-0000-0000-0000-000000000000/builds"
        );
        assert_eq!(
            request.body.as_deref(),
            Some(br#"{"transition":"stop","on_success":{"transition":"start"}}"#.as_slice())
        );
    }

    #[test]
    fn query_values_are_encoded() {
        let request =
            Request::new(&WORKSPACES, &[]).query("q", "owner:me param:\"AI Prompt\"").query("limit", 5);
        assert_eq!(
            request.url(&deployment()).unwrap().query(),
            Some("q=owner%3Ame+param%3A%22AI+Prompt%22&limit=5")
        );
    }

    #[test]
    fn a_deployment_below_a_path_keeps_that_path() {
        let below = Url::parse("https://example.com/coder/").unwrap();
        let request = Request::new(&WORKSPACES, &[]);
        assert_eq!(request.url(&below).unwrap().as_str(), "https://example.com/coder/api/v2/workspaces");
    }

    #[test]
    fn names_cannot_leave_their_segment() {
        let request = Request::new(&WORKSPACE_BY_NAME, &[&"a/b", &"c?d#e f%"]);
        assert_eq!(request.path, "/api/v2/users/a%2Fb/workspace/c%3Fd%23e%20f%25");
        assert_eq!(request.url(&deployment()).unwrap().path(), request.path);
    }

    #[test]
    fn dot_segments_are_refused() {
        for name in ["..", "."] {
            assert!(Request::new(&WORKSPACE_BY_NAME, &[&"me", &name]).url(&deployment()).is_err(), "{name}");
        }
        let climbing = Request::at(&WORKSPACES, encode_path("/@o/w/apps/s/../../../../api/v2/users/me"));
        assert!(climbing.url(&deployment()).is_err());
    }

    #[test]
    fn a_forgotten_value_is_refused() {
        assert!(Request::new(&TEMPLATE_BY_NAME, &[&"only-one"]).url(&deployment()).is_err());
    }

    #[test]
    fn a_websocket_counts_as_a_write() {
        let request = Request::new(&PTY_CONNECT, &[&"id"]).websocket("key".to_owned());
        assert_eq!((request.method, request.effect), (Method::GET, Effect::Write));
    }
}
