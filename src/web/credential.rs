//! The only place that reads a request's credential: a bearer token, or the session cookie of the web page.

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, Method};
use secrecy::SecretString;

use super::problem::{AuthFault, Problem};

/// Holds a token of the person who signed in; scripts of the page cannot read it.
const SESSION_COOKIE: &str = "fleet_session";
/// Set by every browser, and by no script: where the request comes from.
const FETCH_SITE: &str = "Sec-Fetch-Site";
/// A page of another origin cannot set this header without a preflight, which this server never answers.
const CSRF: &str = "X-Fleet-CSRF";

/// Takes the credential out of the request, so that no handler can log or forward it.
pub(super) fn take(request: &mut Request) -> Result<SecretString, Problem> {
    let token = match bearer_token(request.headers())? {
        Some(token) => token,
        None => session_token(request)?.ok_or(AuthFault::MissingToken)?,
    };
    request.headers_mut().remove(AUTHORIZATION);
    request.headers_mut().remove(COOKIE);
    Ok(token)
}

fn bearer_token(headers: &HeaderMap) -> Result<Option<SecretString>, AuthFault> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let Some(header) = given.next() else { return Ok(None) };
    let text = header.to_str().map_err(|_| AuthFault::MalformedHeader)?;
    let (scheme, token) = text.split_once(' ').ok_or(AuthFault::MalformedHeader)?;
    if given.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") || !is_one_token(token) {
        return Err(AuthFault::MalformedHeader);
    }
    Ok(Some(SecretString::from(token)))
}

/// A browser sends the cookie with requests of any page, so only requests of our own page count.
fn session_token(request: &Request) -> Result<Option<SecretString>, Problem> {
    if !accepts_cookie(request.uri().path()) {
        return Ok(None);
    }
    let Some(token) = session_cookie(request.headers()) else { return Ok(None) };
    let headers = request.headers();
    if headers.get(FETCH_SITE).is_none_or(|site| site != "same-origin") {
        return Err(Problem::other_page(FETCH_SITE));
    }
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !only_reads && !headers.contains_key(CSRF) {
        return Err(Problem::other_page(CSRF));
    }
    Ok(Some(SecretString::from(token)))
}

/// The page and its API. MCP clients have a token of their own.
fn accepts_cookie(path: &str) -> bool {
    path == "/" || path.starts_with("/api/v1/")
}

/// Servers on other ports of this host can set cookies too, so two sessions in a request are as good as none.
fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let pairs = pairs.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut sessions = pairs.filter(|(name, _)| *name == SESSION_COOKIE).map(|(_, value)| value);
    let session = sessions.next().filter(|value| is_one_token(value));
    session.filter(|_| sessions.next().is_none())
}

fn is_one_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}
