//! Refuses requests that a foreign web page or a rebound name brought here.

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Problem;

/// Names by which a machine means itself; they are allowed with any port.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Which names this server goes by, besides those of the loopback.
#[derive(Debug, Clone)]
pub struct Access {
    /// `name` stands for all its ports, `name:port` for one.
    pub allowed_hosts: Vec<String>,
    /// Whole origins, `https://name[:port]`; the pages of allowed hosts need no entry.
    pub allowed_origins: Vec<String>,
}

pub(super) async fn check(
    State(access): State<Access>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if !access.allows_host_of(&request) {
        return Err(Problem::foreign("Host", "the request's Host is not a name of this server".to_owned()));
    }
    let mut origins = request.headers().get_all(ORIGIN).iter();
    if !origins.all(|origin| access.allows_origin(origin)) {
        let message = "pages of the request's Origin may not call this server".to_owned();
        return Err(Problem::foreign("Origin", message));
    }
    Ok(next.run(request).await)
}

impl Access {
    /// HTTP/2 names the host in the request's address, HTTP/1.1 in a header, and only once.
    fn allows_host_of(&self, request: &Request) -> bool {
        let mut headers = request.headers().get_all(HOST).iter();
        let named = headers.next().map(|host| host.to_str().ok()?.parse().ok());
        let named: Option<Option<Authority>> = named.or(request.uri().authority().cloned().map(Some));
        headers.next().is_none() && named.flatten().is_some_and(|host| self.allows_host(&host))
    }

    fn allows_host(&self, host: &Authority) -> bool {
        let is_plain = !host.as_str().contains('@');
        let is_named = |allowed: &str| {
            allowed.eq_ignore_ascii_case(host.host()) || allowed.eq_ignore_ascii_case(host.as_str())
        };
        let mut allowed = LOOPBACK.into_iter().chain(self.allowed_hosts.iter().map(String::as_str));
        is_plain && allowed.any(is_named)
    }

    fn allows_origin(&self, origin: &HeaderValue) -> bool {
        let Ok(text) = origin.to_str() else { return false };
        if self.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)) {
            return true;
        }
        let Ok(origin) = text.parse::<Uri>() else { return false };
        let is_web = matches!(origin.scheme_str(), Some("http" | "https"));
        is_web && origin.authority().is_some_and(|host| self.allows_host(host))
    }
}
