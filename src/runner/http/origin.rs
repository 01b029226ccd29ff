//! Refuses requests that a foreign web page makes a browser send.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;
use crate::serve::Access;

/// Host is not checked: Coder's proxy passes on its own host name.
pub(super) async fn check(request: Request, next: Next) -> Result<Response, Problem> {
    match Access::default().check_origin(request.headers()) {
        Ok(()) => Ok(next.run(request).await),
        Err(_foreign) => {
            Err(Problem::new(StatusCode::FORBIDDEN, "pages of this origin may not call the agent"))
        }
    }
}
