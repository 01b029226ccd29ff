//! Coder's error responses, parsed from any kind of body.

use std::fmt::{self, Display};

use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::credential::TokenOrigin;
use super::error::ErrorKind;

/// How much of a body is kept for error messages.
const EXCERPT_BYTES: usize = 2048;

/// A response that is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub operation: &'static str,
    pub status: StatusCode,
    pub message: String,
    pub detail: Option<String>,
    pub validations: Vec<Validation>,
    /// The beginning of the body, without our token.
    pub body: String,
    /// When the rate limit resets.
    pub retry_at: Option<DateTime<Utc>>,
    /// A redirect to the login page, which is the app proxy's way of saying "unauthorized".
    pub sign_in: bool,
    /// Where the refused token was configured, if it was the client's own.
    pub token_origin: Option<TokenOrigin>,
}

/// One invalid field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    pub field: String,
    #[serde(default)]
    pub detail: String,
}

/// The JSON that Coder sends with every error of its API.
#[derive(Debug, Default, Deserialize)]
struct ErrorBody {
    message: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    validations: Option<Vec<Validation>>,
}

impl Answer {
    /// Parses a response; `text` is its body, with secrets removed.
    pub(super) fn read(operation: &'static str, status: StatusCode, headers: &HeaderMap, text: &str) -> Self {
        let body = serde_json::from_str(text).unwrap_or_else(|_| plain_body(headers, text));
        Self {
            operation,
            status,
            message: excerpt(&body.message),
            detail: body.detail.as_deref().map(excerpt).filter(|detail| *detail != body.message),
            validations: body.validations.unwrap_or_default(),
            body: excerpt(text),
            retry_at: if status == StatusCode::TOO_MANY_REQUESTS {
                retry_at(headers, Utc::now())
            } else {
                None
            },
            sign_in: leads_to_login(status, headers),
            token_origin: None,
        }
    }

    pub(super) fn kind(&self) -> ErrorKind {
        match self.status.as_u16() {
            _ if self.sign_in => ErrorKind::Unauthorized,
            400 | 412 | 422 => ErrorKind::Invalid,
            401 => ErrorKind::Unauthorized,
            403 => ErrorKind::Forbidden,
            404 => ErrorKind::NotFound,
            408 => ErrorKind::Timeout,
            409 => ErrorKind::Conflict,
            410 => ErrorKind::Gone,
            429 => ErrorKind::RateLimited { retry_at: self.retry_at },
            500 if self.is_lost_race() => ErrorKind::Conflict,
            500..=599 => ErrorKind::Server,
            _ => ErrorKind::Unexpected,
        }
    }

    /// Concurrent creates of one name: all but one get a 500 that names the database's unique index.
    fn is_lost_race(&self) -> bool {
        self.body.contains("duplicate key value violates unique constraint")
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: Coder answered {}: {}", self.operation, self.status.as_u16(), self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        for Validation { field, detail } in &self.validations {
            write!(f, "; {field}: {detail}")?;
        }
        Ok(())
    }
}

/// The first part of a text, cut between characters.
pub(super) fn excerpt(text: &str) -> String {
    let end = text.floor_char_boundary(EXCERPT_BYTES);
    text.get(..end).unwrap_or_default().to_owned()
}

/// Replaces Coder's JSON for other bodies: plain text is used as the message, a page is not.
fn plain_body(headers: &HeaderMap, text: &str) -> ErrorBody {
    let is_plain =
        header(headers, header::CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("text/plain"));
    let message = if is_plain && !text.trim().is_empty() { text.trim() } else { "no explanation" };
    ErrorBody { message: message.to_owned(), ..ErrorBody::default() }
}

/// When to retry. The reset time is exact, but in the server's time, so it is converted by the server's clock;
/// `Retry-After` is a constant minute and only the fallback.
fn retry_at(headers: &HeaderMap, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let reset = header(headers, "x-ratelimit-reset").and_then(|seconds| seconds.parse().ok());
    let reset = reset
        .and_then(|seconds| DateTime::from_timestamp(seconds, 0))
        .map(|end| end - server_time(headers, now));
    let after = || header(headers, "retry-after")?.parse().ok().and_then(TimeDelta::try_seconds);
    reset.or_else(after).map(|wait| now + wait.max(TimeDelta::zero()))
}

fn server_time(headers: &HeaderMap, now: DateTime<Utc>) -> DateTime<Utc> {
    let date = header(headers, "date").and_then(|date| DateTime::parse_from_rfc2822(date).ok());
    date.map_or(now, |date| date.to_utc())
}

fn leads_to_login(status: StatusCode, headers: &HeaderMap) -> bool {
    let location = header(headers, "location").unwrap_or_default();
    let path = location.split(['?', '#']).next().unwrap_or_default();
    status.is_redirection() && path.ends_with("/login")
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::{
        Answer, DateTime, ErrorKind, HeaderMap, StatusCode, TimeDelta, Utc, Validation, excerpt, retry_at,
    };
    use crate::coder::{CoderError, Outcome};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn answer(status: u16, text: &str) -> Answer {
        Answer::read("workspace_create", StatusCode::from_u16(status).unwrap(), &headers(&[]), text)
    }

    #[test]
    fn status_decides_kind_and_outcome() {
        let found = [400, 401, 403, 404, 408, 409, 410, 412, 422, 428, 301, 500, 502, 503]
            .map(|status| (status, answer(status, "").kind()));
        assert_eq!(
            found,
            [
                (400, ErrorKind::Invalid),
                (401, ErrorKind::Unauthorized),
                (403, ErrorKind::Forbidden),
                (404, ErrorKind::NotFound),
                (408, ErrorKind::Timeout),
                (409, ErrorKind::Conflict),
                (410, ErrorKind::Gone),
                (412, ErrorKind::Invalid),
                (422, ErrorKind::Invalid),
                (428, ErrorKind::Unexpected),
                (301, ErrorKind::Unexpected),
                (500, ErrorKind::Server),
                (502, ErrorKind::Server),
                (503, ErrorKind::Server),
            ]
        );
        let outcome = |status| CoderError::Answered(Box::new(answer(status, ""))).outcome();
        assert_eq!(
            [404, 429, 500, 408].map(outcome),
            [Outcome::Refused, Outcome::Refused, Outcome::Unclear, Outcome::Unclear]
        );
    }

    #[test]
    fn lost_create_race_is_a_conflict() {
        let body = r#"{"message":"Internal server error","detail":"insert workspace: pq: duplicate key value violates unique constraint \"workspaces_owner_id_lower_idx\""}"#;
        let error = CoderError::Answered(Box::new(answer(500, body)));
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, Outcome::Refused));
    }

    #[test]
    fn message_detail_and_validations_are_kept_and_shown() {
        let body = r#"{"message":"Validation failed.","detail":"see below","validations":[{"field":"name","detail":"too long"}]}"#;
        let expected = Answer {
            operation: "workspace_create",
            status: StatusCode::BAD_REQUEST,
            message: "Validation failed.".to_owned(),
            detail: Some("see below".to_owned()),
            validations: vec![Validation { field: "name".to_owned(), detail: "too long".to_owned() }],
            body: body.to_owned(),
            retry_at: None,
            sign_in: false,
            token_origin: None,
        };
        assert_eq!(answer(400, body), expected);
        assert_eq!(
            expected.to_string(),
            "workspace_create: Coder answered 400: Validation failed. (see below); name: too long"
        );
    }

    #[test]
    fn plain_text_explains_itself_and_html_does_not() {
        let explanation = |kind, text| {
            Answer::read("x", StatusCode::BAD_REQUEST, &headers(&[("content-type", kind)]), text).message
        };
        assert_eq!(explanation("text/plain; charset=utf-8", "CSRF error\n"), "CSRF error");
        assert_eq!(explanation("text/html", "<!doctype html>"), "no explanation");
        assert_eq!(explanation("text/plain", ""), "no explanation");
    }

    #[test]
    fn only_a_redirect_to_login_means_unauthorized() {
        let kind = |location| {
            Answer::read("x", StatusCode::SEE_OTHER, &headers(&[("location", location)]), "").kind()
        };
        assert_eq!(kind("https://coder.example/login?message=x"), ErrorKind::Unauthorized);
        assert_eq!(kind("/elsewhere?to=/login"), ErrorKind::Unexpected);
    }

    #[test]
    fn the_window_end_beats_retry_after_and_follows_the_servers_clock() {
        let now: DateTime<Utc> = "2030-01-01T00:00:00Z".parse().unwrap();
        let wait = |pairs: &[_]| retry_at(&headers(pairs), now).map(|at| at - now);
        let date = ("date", "Sun, 15 Nov 2026 23:53:34 GMT");
        let reset = ("x-ratelimit-reset", "1794786849");
        assert_eq!(wait(&[date, reset, ("retry-after", "60")]), Some(TimeDelta::seconds(35)));
        assert_eq!(wait(&[reset]), Some(TimeDelta::zero()));
        assert_eq!(wait(&[("retry-after", "60")]), Some(TimeDelta::seconds(60)));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "99999999999999999")]), None);
    }

    #[test]
    fn excerpts_end_between_characters() {
        assert_eq!(excerpt(&"語".repeat(1000)).len(), 2046);
    }
}
