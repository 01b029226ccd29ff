//! Merges a call's path, query, body and headers into the input of its tool.

use axum::RequestExt;
use axum::body::Bytes;
use axum::extract::{FromRequest, RawPathParams, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::body_limit;
use super::problem::Problem;
use crate::app::error::Error;
use crate::view::json;
use crate::view::request::parse;

const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// Query values are text; these arguments are of other types wherever they occur.
const NUMBERS: [&str; 6] = ["page", "page_size", "wait_seconds", "after", "offset", "limit"];
const BOOLEANS: [&str; 5] = ["all", "escalate", "include_ended", "include_runs", "keep_work"];

/// The input of one tool, parsed like its arguments over MCP.
#[derive(Debug)]
pub(super) struct Arguments<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Arguments<T> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, Problem> {
        let path = path_arguments(&mut request).await?;
        let key = request_key(&request)?;
        let mut arguments = sent_arguments(request, state).await?;
        for (name, value) in path {
            if arguments.insert(name.clone(), value).is_some() {
                return Err(Error::invalid(&name, format!("{name} is allowed in the path only")).into());
            }
        }
        if let Some(key) = key {
            add_request_key(&mut arguments, key)?;
        }
        Ok(Self(parse(Value::Object(arguments))?))
    }
}

/// The path's `name` is always an agent's.
async fn path_arguments(request: &mut Request) -> Result<Map<String, Value>, Problem> {
    let unreadable = |_| Problem::unreadable(StatusCode::BAD_REQUEST, "path", "the path must be UTF-8");
    let params: RawPathParams = request.extract_parts().await.map_err(unreadable)?;
    let named = |name: &str| if name == "name" { "agent_name".to_owned() } else { name.to_owned() };
    Ok(params.iter().map(|(name, value)| (named(name), Value::from(value))).collect())
}

/// POST sends its arguments in the body, other methods in the query; each refuses the other source.
async fn sent_arguments<S: Send + Sync>(request: Request, state: &S) -> Result<Map<String, Value>, Problem> {
    let is_post = request.method() == Method::POST;
    let query = query_arguments(request.uri().query().unwrap_or_default())?;
    let is_json = is_json(request.headers());
    let body = Bytes::from_request(request, state).await.map_err(|_| body_limit::too_large())?;
    if is_post && let Some(name) = query.keys().next() {
        return Err(Error::invalid(name, format!("{name} must be in the body, not in the query")).into());
    }
    match (is_post, body.is_empty()) {
        (_, true) => Ok(query),
        (true, false) if is_json => body_arguments(&body),
        (true, false) => {
            let message = "the body must be JSON, of type application/json";
            Err(Problem::unreadable(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type", message))
        }
        (false, false) => Err(Error::invalid("body", "arguments must be in the query, not in a body").into()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn body_arguments(body: &Bytes) -> Result<Map<String, Value>, Problem> {
    match json::read(body)? {
        Value::Object(arguments) => Ok(arguments),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Error::invalid("body", "the body must be a JSON object").into())
        }
    }
}

fn query_arguments(query: &str) -> Result<Map<String, Value>, Error> {
    let mut arguments = Map::new();
    for (name, text) in url::form_urlencoded::parse(query.as_bytes()) {
        let value = query_value(&name, &text)?;
        if arguments.insert(name.clone().into_owned(), value).is_some() {
            return Err(Error::invalid(&name, format!("{name} is given twice")));
        }
    }
    Ok(arguments)
}

fn query_value(name: &str, text: &str) -> Result<Value, Error> {
    if NUMBERS.contains(&name) {
        let number: Result<i64, _> = text.parse();
        return number
            .map(Value::from)
            .map_err(|_| Error::invalid(name, format!("{name} must be a whole number")));
    }
    if BOOLEANS.contains(&name) {
        let truth: Result<bool, _> = text.parse();
        return truth
            .map(Value::from)
            .map_err(|_| Error::invalid(name, format!("{name} must be true or false")));
    }
    Ok(Value::from(text))
}

/// Reads are repeatable without a key, so it is ignored there.
fn request_key(request: &Request) -> Result<Option<String>, Error> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(None);
    }
    let key = request.headers().get(IDEMPOTENCY_KEY).map(|key| key.to_str().map(str::to_owned));
    key.transpose().map_err(|_| Error::invalid(IDEMPOTENCY_KEY, "the key must be plain text"))
}

fn add_request_key(arguments: &mut Map<String, Value>, key: String) -> Result<(), Error> {
    let key = Value::String(key);
    match arguments.insert("request_key".to_owned(), key.clone()) {
        Some(other) if other != key => {
            let message = format!("request_key and the header {IDEMPOTENCY_KEY} contradict each other");
            Err(Error::invalid("request_key", message))
        }
        Some(_) | None => Ok(()),
    }
}
