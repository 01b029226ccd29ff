//! Bounds request bodies before anything reads them.

use axum::RequestExt;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;
use crate::view::request::MAX_BODY_BYTES;

/// Refuses a body whose declared size is too large at once; a growing body is cut at the limit.
pub(super) async fn limit(request: Request, next: Next) -> Result<Response, Problem> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let is_too_large = announced.is_some_and(|n| n.parse().is_ok_and(|n: u64| n > MAX_BODY_BYTES as u64));
    if is_too_large {
        return Err(too_large());
    }
    Ok(next.run(request.with_limited_body()).await)
}

pub(super) fn too_large() -> Problem {
    let message = format!("the body is larger than {MAX_BODY_BYTES} bytes");
    Problem::unreadable(StatusCode::PAYLOAD_TOO_LARGE, "body", message)
}
