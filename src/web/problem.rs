//! The only place that maps a failure to an HTTP status and the contract's error body.

use std::any::Any;

use axum::extract::OriginalUri;
use axum::response::{IntoResponse, Response};
use axum::{Json, http};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::app::error::{Code, Error};
use crate::app::tokens::UNAUTHENTICATED;
use crate::domain::token::Refusal;
use crate::view::error::ErrorBody;
use crate::view::json::JsonError;

/// Seconds after which Coder may be available again.
const CODER_RETRY_SECONDS: &str = "5";
/// Coder counts requests per minute.
const LIMIT_RETRY_SECONDS: &str = "60";
/// One of the caller's own requests must end first.
const OPEN_RETRY_SECONDS: &str = "1";

/// A failure ready to be sent. The layer that knows the route adds the tool's name.
#[derive(Debug, Clone)]
pub(super) struct Problem(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    status: StatusCode,
    header: Option<(HeaderName, HeaderValue)>,
    body: ProblemBody,
}

/// The error body, with one more word where the caller is not known.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct ProblemBody {
    #[serde(flatten)]
    body: ErrorBody,
    /// With UNAUTHENTICATED: missing_token, malformed_header or invalid_token.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

/// What is wrong with a request's credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthFault {
    MissingToken,
    MalformedHeader,
    InvalidToken(Refusal),
}

impl Problem {
    /// An unreadable request, with its HTTP status.
    pub(super) fn unreadable(status: StatusCode, field: &str, message: impl Into<String>) -> Self {
        Self::of(status, &Error::invalid(field, message))
    }

    pub(super) fn unauthenticated(fault: AuthFault) -> Self {
        let body = ErrorBody {
            code: UNAUTHENTICATED.to_owned(),
            message: fault.message(),
            next_action: fault.next_action().to_owned(),
            ..blank()
        };
        let header = Some((WWW_AUTHENTICATE, fault.challenge()));
        let body = ProblemBody { body, error: Some(fault.word()) };
        Self(Box::new(Parts { status: StatusCode::UNAUTHORIZED, header, body }))
    }

    /// A Host or Origin that is not allowed.
    pub(super) fn foreign(header: &str, message: String) -> Self {
        let body = ErrorBody {
            code: Code::Forbidden.as_str().to_owned(),
            message,
            next_action: format!("Use an address that this server allows as {header}."),
            details: json!({ "field": header }),
            ..blank()
        };
        Self::plain(StatusCode::FORBIDDEN, body)
    }

    /// A session cookie came without the header that only our own page sends.
    pub(super) fn other_page(header: &str) -> Self {
        let body = ErrorBody {
            code: Code::Forbidden.as_str().to_owned(),
            message: format!("a session cookie counts only in requests of the fleet's own page ({header})"),
            next_action: "Send the header 'Authorization: Bearer <token>' instead of the cookie.".to_owned(),
            details: json!({ "field": header }),
            ..blank()
        };
        Self::plain(StatusCode::FORBIDDEN, body)
    }

    /// The agent has reached its limit of open requests.
    pub(super) fn too_many_open(most: usize) -> Self {
        let body = ErrorBody {
            code: Code::RateLimited.as_str().to_owned(),
            message: format!("this agent has {most} open requests, which is the maximum"),
            retryable: true,
            next_action: "Wait until one of them has ended, then call again.".to_owned(),
            ..blank()
        };
        let mut problem = Self::plain(StatusCode::TOO_MANY_REQUESTS, body);
        problem.0.header = Some((RETRY_AFTER, HeaderValue::from_static(OPEN_RETRY_SECONDS)));
        problem
    }

    pub(super) fn with_tool(mut self, tool: &str) -> Self {
        self.0.body.body.tool_name = Some(tool.to_owned());
        self
    }

    fn of(status: StatusCode, error: &Error) -> Self {
        Self::plain(status, ErrorBody { tool_name: None, ..ErrorBody::of(error, "") })
    }

    fn plain(status: StatusCode, body: ErrorBody) -> Self {
        Self(Box::new(Parts { status, header: None, body: ProblemBody { body, error: None } }))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if let Error::TokenRefused(refusal) = error {
            return AuthFault::InvalidToken(refusal).into();
        }
        let status = status_of(error.code());
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = &error as &dyn std::error::Error, "a call failed");
        }
        let mut problem = Self::of(status, &error);
        problem.0.header = retry_after(error.code());
        problem
    }
}

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        let field = error.field().unwrap_or("body");
        Self::unreadable(StatusCode::BAD_REQUEST, field, error.of("the body"))
    }
}

impl From<AuthFault> for Problem {
    fn from(fault: AuthFault) -> Self {
        Self::unauthenticated(fault)
    }
}

impl IntoResponse for Problem {
    /// The problem is attached to the response, so that an outer layer can add the tool's name.
    fn into_response(self) -> Response {
        let parts = &self.0;
        let mut response = (parts.status, Json(&parts.body)).into_response();
        response.headers_mut().extend(parts.header.clone());
        response.extensions_mut().insert(self);
        response
    }
}

impl AuthFault {
    fn word(self) -> &'static str {
        match self {
            Self::MissingToken => "missing_token",
            Self::MalformedHeader => "malformed_header",
            Self::InvalidToken(_) => "invalid_token",
        }
    }

    fn message(self) -> String {
        match self {
            Self::MissingToken => "the request has no token".to_owned(),
            Self::MalformedHeader => "the Authorization header must be 'Bearer' and one token".to_owned(),
            Self::InvalidToken(refusal) => refusal.to_string(),
        }
    }

    fn next_action(self) -> &'static str {
        match self {
            Self::MissingToken | Self::MalformedHeader => "Send the header 'Authorization: Bearer <token>'.",
            Self::InvalidToken(refusal) => refusal.next_action(),
        }
    }

    fn challenge(self) -> HeaderValue {
        match self {
            Self::MissingToken | Self::MalformedHeader => HeaderValue::from_static("Bearer"),
            Self::InvalidToken(_) => HeaderValue::from_static(r#"Bearer error="invalid_token""#),
        }
    }
}

/// The response for unknown paths.
pub(super) async fn no_route(method: Method, OriginalUri(uri): OriginalUri) -> Problem {
    let body = ErrorBody {
        code: Code::NotFound.as_str().to_owned(),
        message: format!("there is no route {method} {}", uri.path()),
        next_action: "Read /api/v1/openapi.json for the list of routes.".to_owned(),
        ..blank()
    };
    Problem::plain(StatusCode::NOT_FOUND, body)
}

/// The response for a known path with an unsupported method.
pub(super) async fn wrong_method(method: Method, OriginalUri(uri): OriginalUri) -> Problem {
    let message = format!("{} does not support {method}", uri.path());
    Problem::unreadable(StatusCode::METHOD_NOT_ALLOWED, "method", message)
}

/// The response for a handler that panicked; the panic hook has logged the reason.
pub(super) fn panicked(_panic: Box<dyn Any + Send>) -> Response {
    tracing::error!("the handler of a request panicked");
    let body = ErrorBody {
        code: Code::Internal.as_str().to_owned(),
        message: "internal server error".to_owned(),
        retryable: true,
        next_action: "Call again; if it happens twice, report it as a defect with the server's log."
            .to_owned(),
        ..blank()
    };
    Problem::plain(StatusCode::INTERNAL_SERVER_ERROR, body).into_response()
}

fn blank() -> ErrorBody {
    ErrorBody {
        code: String::new(),
        message: String::new(),
        retryable: false,
        next_action: String::new(),
        instance_id: None,
        tool_name: None,
        details: Value::Object(serde_json::Map::new()),
    }
}

fn status_of(code: Code) -> StatusCode {
    match code {
        Code::InvalidInput => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::KeyReused | Code::AgentNotReady => StatusCode::CONFLICT,
        Code::AgentBusy | Code::NoTask | Code::CapacityExceeded => StatusCode::CONFLICT,
        Code::CoderRejected => StatusCode::UNPROCESSABLE_ENTITY,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::CoderUnavailable | Code::EngineUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Timeout => StatusCode::GATEWAY_TIMEOUT,
    }
}

fn retry_after(code: Code) -> Option<(HeaderName, HeaderValue)> {
    let seconds = match code {
        Code::CoderUnavailable => CODER_RETRY_SECONDS,
        Code::RateLimited => LIMIT_RETRY_SECONDS,
        Code::InvalidInput | Code::Forbidden | Code::NotFound | Code::AlreadyExists => return None,
        Code::KeyReused | Code::AgentNotReady | Code::CoderRejected => return None,
        Code::AgentBusy | Code::NoTask | Code::CapacityExceeded => return None,
        Code::Internal | Code::Timeout | Code::EngineUnavailable | Code::Unauthenticated => return None,
    };
    Some((RETRY_AFTER, HeaderValue::from_static(seconds)))
}

#[cfg(test)]
#[path = "problem_tests.rs"]
mod tests;
