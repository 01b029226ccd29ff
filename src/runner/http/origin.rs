//! Refuses requests that a foreign web page sends through somebody's browser.

use axum::extract::Request;
use axum::http::header::ORIGIN;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;

const OWN: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Programs send no Origin; pages of this machine may ask. The Host says nothing here, because Coder's proxy
/// passes on the name by which it was reached itself.
pub(super) async fn check(request: Request, next: Next) -> Result<Response, Problem> {
    if request.headers().get_all(ORIGIN).iter().all(is_own) {
        return Ok(next.run(request).await);
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "pages of this origin may not talk to the agent"))
}

fn is_own(origin: &HeaderValue) -> bool {
    let uri = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
    uri.and_then(|uri| Some(OWN.contains(&uri.host()?))).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_machine_may_ask() {
        let own = |text| is_own(&HeaderValue::from_static(text));
        assert_eq!(["http://localhost:3000", "http://127.0.0.1", "http://[::1]:1"].map(own), [true; 3]);
        let foreign = ["null", "http://evil.example", "http://localhost.evil.example", "http://127.0.0.2"];
        assert_eq!(foreign.map(own), [false; 4]);
    }
}
