//! Authenticates a caller, the user or an agent, before a handler runs.

use std::sync::Arc;

use axum::extract::{FromRequestParts, OriginalUri};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use url::form_urlencoded;
use uuid::Uuid;

use super::answer::Refusal;
use crate::local::Deployment;
use crate::local::token;

const COOKIE: &str = "coder_session_token";
const HEADER: &str = "coder-session-token";

/// Proof that the request carried the user's token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignedIn;

/// Proof that a request to an app carried the user's token; without it a browser is redirected to sign in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignedInToApp;

/// The agent whose token the request carried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentCaller {
    pub(crate) workspace: Uuid,
    pub(crate) agent: Uuid,
}

impl FromRequestParts<Arc<Deployment>> for SignedIn {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Deployment>) -> Result<Self, Refusal> {
        if cookie(&parts.headers).is_some() && parts.method != Method::GET {
            let text = "CSRF error encountered: a request with the session cookie needs a CSRF token\n";
            return Err(Refusal::text(StatusCode::BAD_REQUEST, text));
        }
        check(state, &parts.headers, &parts.uri)
    }
}

impl FromRequestParts<Arc<Deployment>> for SignedInToApp {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Deployment>) -> Result<Self, Refusal> {
        let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
        match check(state, &parts.headers, uri) {
            Ok(SignedIn) => Ok(Self),
            Err(_) => Err(sign_in(state, uri)),
        }
    }
}

impl FromRequestParts<Arc<Deployment>> for AgentCaller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Deployment>) -> Result<Self, Refusal> {
        let token = text(&parts.headers, HEADER).unwrap_or_default();
        if Uuid::try_parse(token).is_err() {
            let detail = format!("An agent token must be a valid UUIDv4. (len {})", token.len());
            return Err(
                Refusal::new(StatusCode::UNAUTHORIZED, "Workspace agent token invalid.").detail(&detail)
            );
        }
        agent_of(state, &parts.headers).ok_or_else(|| {
            let detail = "The agent cannot authenticate until the workspace provision job has been completed. \
                          If the job is no longer running, this agent is invalid.";
            Refusal::new(StatusCode::UNAUTHORIZED, "Workspace agent not authorized.").detail(detail)
        })
    }
}

/// The agent whose own token a request carries.
pub(crate) fn agent_of(state: &Deployment, headers: &HeaderMap) -> Option<AgentCaller> {
    let token = text(headers, HEADER).filter(|token| Uuid::try_parse(token).is_ok())?;
    let (workspace, agent) = state.read(|memory| memory.agent_with_token(token))?;
    Some(AgentCaller { workspace, agent })
}

/// Whether this request is the user's; for the rate limit only.
pub(crate) fn is_user(state: &Deployment, headers: &HeaderMap, uri: &Uri) -> bool {
    check(state, headers, uri).is_ok()
}

/// The cookie takes precedence over the header, as on a real server.
fn check(state: &Deployment, headers: &HeaderMap, uri: &Uri) -> Result<SignedIn, Refusal> {
    let bearer =
        text(headers, header::AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    let given = cookie(headers).or(text(headers, HEADER)).or(bearer).map(str::to_owned).or(query(uri));
    let Some(given) = given else {
        return Err(Refusal::signed_out(
            "Cookie \"coder_session_token\" or query parameter must be provided.",
        ));
    };
    if token::matches(&state.info.token_hash, &given) {
        return Ok(SignedIn);
    }
    let detail = token::malformed(&given).unwrap_or_else(|| "API key is invalid.".to_owned());
    Err(Refusal::signed_out(&detail))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

fn query(uri: &Uri) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.find(|(name, _)| name == COOKIE).map(|(_, value)| value.into_owned())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn sign_in(state: &Deployment, uri: &Uri) -> Refusal {
    let message = "You are signed out or your session has expired. Please sign in again to continue.";
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("message", message)
        .append_pair("redirect", &uri.to_string())
        .finish();
    let base = state.info.url.as_str().trim_end_matches('/');
    Refusal::redirect(StatusCode::SEE_OTHER, &format!("{base}/login?{query}"))
}
