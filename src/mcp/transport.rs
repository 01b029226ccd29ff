//! The MCP endpoint over streamable HTTP, for both protocol eras.
//!
//! Both are served without sessions: a request stands alone, so its own token alone decides who calls, a
//! restart breaks no client, and nothing has to be remembered for one that went away.

use std::sync::Arc;

use http::Uri;
use http::uri::Authority;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::FleetServer;
use super::tools::Toolsets;
use crate::app::Fleet;

/// Far more than the largest spec, escaped, and far less than would hurt.
const MAX_BODY_BYTES: usize = 1 << 20;

/// A tower service for `Router::nest_service("/mcp", ..)`.
pub type McpService = StreamableHttpService<FleetServer, NeverSessionManager>;

/// Names by which a machine means itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// Names the server may be called by, with or without port; none means loopback only.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call it besides those of the allowed hosts, as `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
    /// Ends the answers under way.
    pub shutdown: CancellationToken,
    pub toolsets: Toolsets,
}

/// The service; a layer around it must put the request's `Principal` into its extensions.
pub fn service(fleet: Fleet, options: TransportOptions) -> McpService {
    let server = FleetServer::new(fleet, options.toolsets);
    // An empty list would let rmcp take any host.
    let hosts = match options.allowed_hosts {
        hosts if hosts.is_empty() => LOOPBACK.map(str::to_owned).to_vec(),
        hosts => hosts,
    };
    let origins = hosts.iter().flat_map(|host| pages_of(host)).chain(with_ports(options.allowed_origins));
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(options.shutdown)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_allowed_hosts(hosts);
    StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config)
}

/// The origins of a host's own pages: at its port, or at any if it has none.
fn pages_of(host: &str) -> [String; 2] {
    let has_port = host.parse::<Authority>().is_ok_and(|host| host.port().is_some());
    let port = if has_port { "" } else { ":*" };
    ["http", "https"].map(|scheme| format!("{scheme}://{host}{port}"))
}

/// rmcp takes an origin without port for all its ports; browsers mean the scheme's own.
fn with_ports(origins: Vec<String>) -> impl Iterator<Item = String> {
    origins.into_iter().map(|origin| match origin.parse::<Uri>() {
        Ok(uri) if uri.port().is_none() && uri.scheme_str() == Some("https") => format!("{origin}:443"),
        Ok(uri) if uri.port().is_none() && uri.scheme_str() == Some("http") => format!("{origin}:80"),
        Ok(_) | Err(_) => origin,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_stands_for_the_port_a_browser_means() {
        let origins = ["https://a.test", "http://a.test", "http://a.test:3000", "null"];
        let found: Vec<String> = with_ports(origins.map(str::to_owned).to_vec()).collect();
        assert_eq!(found, ["https://a.test:443", "http://a.test:80", "http://a.test:3000", "null"]);
    }

    #[test]
    fn a_hosts_own_pages_are_those_of_its_port_or_of_all() {
        assert_eq!(pages_of("a.test:80"), ["http://a.test:80", "https://a.test:80"]);
        assert_eq!(pages_of("[::1]"), ["http://[::1]:*", "https://[::1]:*"]);
    }
}
