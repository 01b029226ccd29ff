//! Carries calls that change something to their end, also when the client does not stay for the answer.

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::problem;

/// The server drops a request whose connection is gone. Dropped between its effect and its row in the audit trail, a
/// call would have happened without a trace, so it is a task of its own, awaited at shutdown.
pub(super) async fn outlive(State(tasks): State<TaskTracker>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    let call = tasks.spawn(next.run(request).in_current_span());
    call.await.unwrap_or_else(|ended| problem::panicked(Box::new(ended)))
}
