//! Our tokens: attached to requests, and removed from everything that is kept of responses.

use http::{HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret, SecretString};

use super::request::{Auth, Request};
use super::{Client, CoderError};

const SESSION_HEADER: HeaderName = HeaderName::from_static("coder-session-token");
const SESSION_COOKIE: &str = "coder_session_token=";

/// Where the client's token was configured; determines the advice when Coder refuses the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenOrigin {
    Environment,
    File,
    /// The embedded Coder issued it.
    Embedded,
}

/// The header that carries a request's token, and the token itself, to be removed from responses.
#[derive(Debug)]
pub(super) struct Credential {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    pub(super) secret: SecretString,
}

impl Client {
    /// Where the token of this request was configured; none for a token that is not the client's own.
    pub(super) fn token_origin(&self, request: &Request) -> Option<TokenOrigin> {
        match request.auth {
            Auth::SessionHeader | Auth::SessionCookie => Some(self.shared.token_origin),
            Auth::None | Auth::Agent(_) => None,
        }
    }

    pub(super) fn credential(&self, request: &Request) -> Result<Option<Credential>, CoderError> {
        let (name, prefix, secret) = match &request.auth {
            Auth::None => return Ok(None),
            Auth::SessionHeader => (SESSION_HEADER, "", self.token()),
            Auth::SessionCookie => (header::COOKIE, SESSION_COOKIE, self.token()),
            Auth::Agent(token) => (SESSION_HEADER, "", token.clone()),
        };
        check_token(&secret)?;
        let mut value =
            HeaderValue::try_from(format!("{prefix}{}", secret.expose_secret())).map_err(|_| {
                CoderError::request(
                    request.operation.name,
                    "the token is not a valid header value".to_owned(),
                )
            })?;
        value.set_sensitive(true);
        Ok(Some(Credential { name, value, secret }))
    }
}

/// A token must be valid as a header and as a cookie, so only characters that both allow are accepted.
pub(super) fn check_token(token: &SecretString) -> Result<(), CoderError> {
    let usable = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b';' | b',' | b'"' | b'\\');
    let token = token.expose_secret();
    if !token.is_empty() && token.bytes().all(usable) {
        return Ok(());
    }
    Err(CoderError::Setup { reason: "the token is empty or has characters that no token has".to_owned() })
}

/// Servers and proxies may echo requests; our token must not appear in an error.
pub(super) fn scrub(text: &str, secret: Option<&SecretString>) -> String {
    match secret {
        Some(secret) => text.replace(secret.expose_secret(), "[token]"),
        None => text.to_owned(),
    }
}
