//! The allowed Host and Origin of requests, so that no page of another site reaches a server through a browser.
//!
//! Names are compared literally. A name that only resolves to this machine is refused: that is DNS rebinding.

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request, Uri};

/// Names of the local machine; allowed with any port.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The allowed names of a server besides the loopback names.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `name` allows all ports, `name:port` one.
    pub allowed_hosts: Vec<String>,
    /// Whole origins, `https://name[:port]`; pages of allowed hosts need no entry.
    pub allowed_origins: Vec<String>,
}

/// The header for which a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedHeader {
    Host,
    Origin,
}

impl Access {
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), RefusedHeader> {
        if !self.allows_host_of(request) {
            return Err(RefusedHeader::Host);
        }
        self.check_origin(request.headers())
    }

    /// Programs send no Origin. This is the whole check for a server behind a proxy, which passes on its own Host.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), RefusedHeader> {
        let is_allowed = headers.get_all(ORIGIN).iter().all(|origin| self.allows_origin(origin));
        if is_allowed { Ok(()) } else { Err(RefusedHeader::Origin) }
    }

    /// HTTP/2 names the host in the URI, HTTP/1.1 in a header, exactly once.
    fn allows_host_of<B>(&self, request: &Request<B>) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(host: Option<&str>, origin: Option<&str>) -> Option<RefusedHeader> {
        let headers = [(HOST, host), (ORIGIN, origin)].into_iter();
        let request = headers
            .filter_map(|(name, value)| Some((name, value?)))
            .fold(Request::builder(), |request, (name, value)| request.header(name, value));
        let access = Access {
            allowed_hosts: vec!["fleet.example".to_owned(), "one.example:8443".to_owned()],
            allowed_origins: vec!["https://pages.example".to_owned()],
        };
        access.check(&request.body(()).unwrap()).err()
    }

    #[test]
    fn only_a_host_by_which_the_server_is_known_passes() {
        for ours in
            ["127.0.0.1:7080", "localhost", "LocalHost:1", "[::1]:1", "fleet.example:9", "one.example:8443"]
        {
            assert_eq!(refusal(Some(ours), None), None, "{ours}");
        }
        for foreign in
            ["rebound.example:7080", "127.0.0.2", "localhost.example", "one.example", "me@localhost", ""]
        {
            assert_eq!(refusal(Some(foreign), None), Some(RefusedHeader::Host), "{foreign}");
        }
        assert_eq!(refusal(None, None), Some(RefusedHeader::Host));
    }

    #[test]
    fn only_pages_of_the_server_and_of_allowed_origins_pass() {
        let of = |origin| refusal(Some("localhost"), Some(origin));
        for ours in ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:1", "https://pages.example"] {
            assert_eq!(of(ours), None, "{ours}");
        }
        let foreign = [
            "null",
            "http://evil.example",
            "http://localhost.evil.example",
            "http://127.0.0.2",
            "https://pages.example:8443",
            "file://localhost",
        ];
        for foreign in foreign {
            assert_eq!(of(foreign), Some(RefusedHeader::Origin), "{foreign}");
        }
    }
}
