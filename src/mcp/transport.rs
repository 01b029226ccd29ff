//! The MCP endpoint over streamable HTTP, for both protocol versions.
//!
//! Both are served without sessions: each request stands alone, so its own token alone identifies the caller, a
//! restart breaks no client, and no state is kept for clients that went away.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::FleetServer;
use super::tools::Toolsets;
use crate::app::Fleet;
use crate::view::request::MAX_BODY_BYTES;

/// A tower service for `Router::nest_service("/mcp", ..)`.
pub type McpService = StreamableHttpService<FleetServer, NeverSessionManager>;

#[derive(Debug, Clone)]
pub struct TransportOptions {
    /// Ends responses in flight.
    pub shutdown: CancellationToken,
    pub toolsets: Toolsets,
}

/// The service; layers around it must check Host and Origin and put the request's `Principal` into its extensions.
pub fn service(fleet: Fleet, options: TransportOptions) -> McpService {
    let server = FleetServer::new(fleet, options.toolsets);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(options.shutdown)
        // The guard around it has checked both, by the server's own rule.
        .disable_allowed_hosts()
        .disable_allowed_origins();
    StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config)
}
