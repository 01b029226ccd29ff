//! The page that a person sees when a request cannot be passed on.

use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;

/// An HTML answer, as Coder gives everywhere outside of its API.
pub(super) fn error(status: StatusCode, sentence: &str) -> Response {
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{status}</title></head>\n\
         <body><h1>{status}</h1><p>{sentence}</p></body>\n</html>\n"
    );
    (status, Html(page)).into_response()
}
