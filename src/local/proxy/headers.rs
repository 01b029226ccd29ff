//! Decides which headers and cookies of a request an app sees.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request};
use http::header::{CONNECTION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, UPGRADE};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Headers of one connection, not of the request.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    http::header::PROXY_AUTHENTICATE,
    http::header::PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    http::header::TRANSFER_ENCODING,
    UPGRADE,
];

/// Coder's session cookies; an app that saw them could act as the user.
const CODER_COOKIES: [&str; 5] =
    ["coder_session_token", "coder_path_app_session_token", "oauth_state", "oauth_redirect", "csrf_token"];
/// These carry an app-specific suffix.
const CODER_COOKIE_PREFIXES: [&str; 2] = ["coder_signed_app_token", "coder_subdomain_app_session_token"];
/// Prefixes of cookies that are set over TLS.
const SECURE_MARKS: [&str; 2] = ["__Host-", "__Secure-"];

/// Rewrites the headers for the app and adds the forwarding headers.
pub(super) fn for_app(request: &mut Request) {
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let upgrade = upgrade_of(request.headers());
    let asked_host = host_of(request);
    let headers = request.headers_mut();
    strip_hop_by_hop(headers);
    strip_coder_cookies(headers);
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    forwarded(headers, client, asked_host);
    // Apps that check their host against DNS rebinding expect a local name.
    headers.insert(HOST, HeaderValue::from_static("localhost"));
}

pub(super) fn asks_for_upgrade(headers: &HeaderMap) -> bool {
    upgrade_of(headers).is_some()
}

/// Also removes the headers that `Connection` names.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in connection_words(headers) {
        headers.remove(name);
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_asked = connection_words(headers).iter().any(|word| word == "upgrade");
    headers.get(UPGRADE).filter(|_| is_asked).cloned()
}

fn connection_words(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|word| word.trim().to_ascii_lowercase()).collect()
}

fn strip_coder_cookies(headers: &mut HeaderMap) {
    let cookies = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let pairs = cookies.flat_map(|cookie| cookie.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    let kept: Vec<&[u8]> = pairs.filter(|pair| !pair.is_empty() && !is_coders(pair)).collect();
    let kept = HeaderValue::from_bytes(&kept.join(&b"; "[..]));
    headers.remove(COOKIE);
    if let Ok(kept) = kept
        && !kept.is_empty()
    {
        headers.insert(COOKIE, kept);
    }
}

fn is_coders(pair: &[u8]) -> bool {
    let name = String::from_utf8_lossy(pair.split(|byte| *byte == b'=').next().unwrap_or_default());
    let name = name.trim();
    let name = SECURE_MARKS.iter().find_map(|mark| name.strip_prefix(mark)).unwrap_or(name);
    CODER_COOKIES.contains(&name) || CODER_COOKIE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// An HTTP/2 request has its host in the URI.
fn host_of(request: &Request) -> Option<HeaderValue> {
    let authority = || HeaderValue::from_str(request.uri().authority()?.as_str()).ok();
    request.headers().get(HOST).cloned().or_else(authority)
}

/// Entries of earlier proxies stay; our client is appended.
fn forwarded(headers: &mut HeaderMap, client: Option<SocketAddr>, host: Option<HeaderValue>) {
    if let Some(client) = client {
        let before = headers.get(FORWARDED_FOR).and_then(|value| value.to_str().ok());
        let before = before.map(|before| format!("{before}, ")).unwrap_or_default();
        if let Ok(chain) = HeaderValue::from_str(&format!("{before}{}", client.ip())) {
            headers.insert(FORWARDED_FOR, chain);
        }
    }
    if let Some(host) = host {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
    headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static("http"));
}

#[cfg(test)]
mod tests {
    use super::{COOKIE, HeaderMap, strip_coder_cookies, strip_hop_by_hop};
    use http::header::{HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_coders_own_cookies_are_removed() {
        let mut all = headers(&[
            ("cookie", "coder_session_token=a; theme=dark; __Host-coder_session_token=b; my_csrf_token=c"),
            ("cookie", "coder_signed_app_token_1f=d; csrf_token=e; oauth_state=f; coder_session_tokens=g;"),
        ]);
        strip_coder_cookies(&mut all);
        let expected = headers(&[("cookie", "theme=dark; my_csrf_token=c; coder_session_tokens=g")]);
        assert_eq!(all, expected);
    }

    #[test]
    fn no_cookie_is_left_where_all_were_coders() {
        let mut all = headers(&[("cookie", "coder_session_token=a")]);
        strip_coder_cookies(&mut all);
        assert_eq!(all.get(COOKIE), None);
    }

    #[test]
    fn what_belongs_to_the_connection_is_removed_with_what_it_names() {
        let mut all = headers(&[
            ("connection", "close, X-Own"),
            ("x-own", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("x-other", "2"),
        ]);
        strip_hop_by_hop(&mut all);
        assert_eq!(all, headers(&[("x-other", "2")]));
    }
}
