//! Refuses requests that a foreign web page makes a browser send to this loopback server.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use url::Url;

use super::answer::Refusal;

const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

pub(crate) async fn guard(request: Request, next: Next) -> Response {
    if is_ours(request.headers()) {
        return next.run(request).await;
    }
    Refusal::new(StatusCode::FORBIDDEN, "Requests from other hosts and pages are refused.").into_response()
}

/// The name the client believes to call is ours, and a page that makes the call is served by us.
fn is_ours(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_host_ours = text(header::HOST).is_none_or(is_loopback);
    let is_origin_ours = text(header::ORIGIN).is_none_or(|origin| {
        let url = Url::parse(origin).ok();
        url.and_then(|url| url.host_str().map(is_loopback)).unwrap_or_default()
    });
    is_host_ours && is_origin_ours
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    LOOPBACK.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_pages_pass() {
        let ours = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            is_ours(&headers)
        };
        assert!(ours("127.0.0.1:7080", None));
        assert!(ours("localhost:1", Some("http://127.0.0.1:7080")));
        assert!(ours("[::1]:1", Some("http://[::1]:1")));
        assert!(!ours("rebound.example:7080", None));
        assert!(!ours("127.0.0.1:7080", Some("https://evil.example")));
        assert!(!ours("127.0.0.1:7080", Some("null")));
    }
}
