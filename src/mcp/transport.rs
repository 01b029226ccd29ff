//! The MCP endpoint over streamable HTTP, for both protocol eras.
//!
//! Both are served without sessions: a request stands alone, so its own token alone decides who calls, a
//! restart breaks no client, and nothing has to be remembered for one that went away.

use std::sync::Arc;

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

#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// Names the server may be called by, with or without port; none means loopback only.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call it, as `scheme://host:port`; none means no web page at all.
    pub allowed_origins: Vec<String>,
    /// Ends the answers under way.
    pub shutdown: CancellationToken,
    pub toolsets: Toolsets,
}

/// The service; a layer around it must put the request's `Principal` into its extensions.
pub fn service(fleet: Fleet, options: TransportOptions) -> McpService {
    let server = FleetServer::new(fleet, options.toolsets);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(options.shutdown)
        .with_allowed_origins(options.allowed_origins)
        .enforce_origin_validation();
    // An empty list would let rmcp take any host, so its own default, loopback, stays then.
    let config = match options.allowed_hosts {
        hosts if hosts.is_empty() => config,
        hosts => config.with_allowed_hosts(hosts),
    };
    StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config)
}
