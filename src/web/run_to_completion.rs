//! Runs changing calls to their end, even if the client disconnects.

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::problem;

/// The server drops the request of a closed connection. A call that is dropped between its effect and its audit row
/// would leave no trace, so it runs in its own task, awaited at shutdown.
pub(super) async fn run_to_completion(
    State(tasks): State<TaskTracker>,
    request: Request,
    next: Next,
) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return next.run(request).await;
    }
    let call = tasks.spawn(next.run(request).in_current_span());
    call.await.unwrap_or_else(|ended| problem::panicked(Box::new(ended)))
}
