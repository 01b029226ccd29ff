//! Refuses requests from foreign web pages and with rebound host names.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;
use crate::serve::{Access, RefusedHeader};

pub(super) async fn check(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    match access.check(&request) {
        Ok(()) => Ok(next.run(request).await),
        Err(RefusedHeader::Host) => {
            Err(Problem::foreign("Host", "the request's Host is not a name of this server".to_owned()))
        }
        Err(RefusedHeader::Origin) => {
            let message = "pages of the request's Origin may not call this server".to_owned();
            Err(Problem::foreign("Origin", message))
        }
    }
}
