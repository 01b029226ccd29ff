//! Classifies URLs by the location of their server.

use url::{Host, Url};

/// Whether it is this machine. Then no proxy may be used.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        let is_loopback_url = |url: &str| is_loopback(&Url::parse(url).unwrap());
        for here in ["http://127.0.0.1:3001", "http://[::1]/", "http://localhost:1", "http://a.localhost/"] {
            assert!(is_loopback_url(here), "{here}");
        }
        for away in [
            "http://10.0.0.1/",
            "http://notlocalhost/",
            "https://localhost.example.org/",
            "http://[2001:db8::1]/",
            "unix:/x",
        ] {
            assert!(!is_loopback_url(away), "{away}");
        }
    }
}
