//! Gives every request an id, a span and an entry in the metrics.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;
use uuid::Uuid;

use super::metrics::{HttpCall, Metrics};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names the route by its template: paths of callers appear neither in spans nor in metrics.
pub(super) async fn observe(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let id = Uuid::now_v7().to_string();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let method = method_word(request.method());
    let span = tracing::info_span!("http", request.id = id, http.method = method, http.route = route);
    let started = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let call = HttpCall { method, route, status: response.status(), took: started.elapsed() };
    span.in_scope(|| tracing::debug!(http.status = call.status.as_u16(), took = ?call.took, "answered"));
    metrics.count_call(&call);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Unknown methods share one label, so that a caller cannot grow the metrics.
pub(super) fn method_word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
