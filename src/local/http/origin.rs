//! Refuses requests that a foreign web page makes a browser send to this loopback server.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::answer::Refusal;
use crate::serve::Access;

pub(crate) async fn guard(request: Request, next: Next) -> Response {
    if Access::default().check(&request).is_ok() {
        return next.run(request).await;
    }
    Refusal::new(StatusCode::FORBIDDEN, "The Host or Origin of the request is not allowed.").into_response()
}
