//! Checks of single arguments; each error names the field.

use std::time::Duration;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::MAX_WAIT_SECONDS;
use crate::app::agents::RequestToken;
use crate::app::error::Error;
use crate::domain::agent::{AgentStatus, first_message};
use crate::domain::name::AgentName;
use crate::domain::page::{PageError, PageRequest};
use crate::domain::spec::Spec;

const MAX_KEY_CHARS: usize = 200;
const MAX_URL_CHARS: usize = 2_000;

pub(super) fn filled(field: &str, text: &str) -> Result<String, Error> {
    let text = text.trim();
    if text.is_empty() {
        Err(Error::invalid(field, format!("{field} is blank")))
    } else {
        Ok(text.to_owned())
    }
}

/// A name for a new agent.
pub(super) fn agent_name(text: &str) -> Result<AgentName, Error> {
    let name = AgentName::parse(text).map_err(|error| Error::invalid("name", error.to_string()))?;
    if name.is_of_runs() {
        return Err(Error::invalid("name", "names that begin with 'runs-' are reserved for squads"));
    }
    Ok(name)
}

/// A spec that fits in one message together with its pull request.
pub(super) fn spec(text: &str, pull_request_url: Option<&str>) -> Result<Spec, Error> {
    let spec = Spec::parse(text).map_err(|error| Error::invalid("spec", error.to_string()))?;
    // Both are checked for blanks before, so only their total length can be wrong.
    Spec::parse(&first_message(spec.as_str(), pull_request_url))
        .map_err(|error| Error::invalid("spec", format!("with the pull request {error}")))?;
    Ok(spec)
}

pub(super) fn pull_request_url(text: &str) -> Result<String, Error> {
    let refused = |why: String| Error::invalid("pull_request_url", format!("pull_request_url {why}"));
    if text.len() > MAX_URL_CHARS {
        return Err(refused(format!("may have at most {MAX_URL_CHARS} characters")));
    }
    // The URL parser removes line breaks, so they must be rejected before they reach the agent's first message.
    let is_plain = !text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    let url = url::Url::parse(text).ok().filter(|url| is_plain && matches!(url.scheme(), "http" | "https"));
    let Some(url) = url else { return Err(refused("is not an http or https address".to_owned())) };
    if !url.username().is_empty() || url.password().is_some() {
        let why = "contains a user name or a password: remove it, because agents see the address";
        return Err(refused(why.to_owned()));
    }
    Ok(text.to_owned())
}

pub(super) fn statuses(list: &str) -> Result<Vec<AgentStatus>, Error> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| AgentStatus::parse(word).ok_or_else(|| unknown_status(word))).collect()
}

fn unknown_status(word: &str) -> Error {
    let known: Vec<&str> = AgentStatus::ALL.iter().map(|status| status.word()).collect();
    Error::invalid(
        "status_filter",
        format!("'{word}' is not a status; the statuses are {}", known.join(", ")),
    )
}

pub(super) fn page_of(page: i64, size: i64) -> Result<PageRequest, Error> {
    PageRequest::parse(page, size).map_err(|error| {
        let field = match error {
            PageError::Page(_) => "page",
            PageError::Size(_) => "page_size",
        };
        Error::invalid(field, error.to_string())
    })
}

pub(super) fn wait_of(wait_seconds: i64) -> Result<Duration, Error> {
    if !(0..=MAX_WAIT_SECONDS).contains(&wait_seconds) {
        return Err(Error::invalid(
            "wait_seconds",
            format!("wait_seconds must be between 0 and {MAX_WAIT_SECONDS}"),
        ));
    }
    Ok(seconds(wait_seconds))
}

pub(super) fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.unsigned_abs())
}

/// The idempotency key with a digest of its arguments: the same key with other arguments is refused.
pub(super) fn request_token(
    key: Option<&str>,
    arguments: &impl Serialize,
) -> Result<Option<RequestToken>, Error> {
    let Some(key) = key else { return Ok(None) };
    if key.trim().is_empty() || key.chars().count() > MAX_KEY_CHARS {
        return Err(Error::invalid(
            "request_key",
            format!("request_key must have 1 to {MAX_KEY_CHARS} characters"),
        ));
    }
    let canonical =
        serde_json::to_vec(arguments).map_err(|error| Error::invalid("request_key", error.to_string()))?;
    Ok(Some(RequestToken { key: key.to_owned(), fingerprint: Sha256::digest(&canonical).into() }))
}
