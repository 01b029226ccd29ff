//! The error page for a request that cannot be forwarded.

use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

/// An HTML page, as Coder sends outside of its API.
pub(super) fn error(status: StatusCode, sentence: &str) -> Response {
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{status}</title></head>\n\
         <body><h1>{status}</h1><p>{sentence}</p></body>\n</html>\n"
    );
    (status, Html(page)).into_response()
}
