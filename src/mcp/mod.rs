//! The MCP surface: what a client may see and call, by the principal of each request.
//!
//! `source` is the interface of tool sources, `tools` the table of our own, `transport` serves them over HTTP,
//! `bridge` connects stdio to that HTTP. Nothing here decides or keeps state: each request stands alone, and `app`
//! does the work.

pub mod bridge;
mod call;
mod error;
mod fit;
mod instructions;
mod schema;
mod source;
pub mod tools;
pub mod transport;

use std::path::PathBuf;
use std::sync::Arc;

use http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult,
    DiscoverResult, Implementation, InitializeRequestParams, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use crate::app::Fleet;
use crate::app::caller::{Caller, Surface};
use crate::domain::access::Principal;
use crate::domain::directory::{HEADER, decode};
use crate::domain::provision::CLIENT_SERVER;
use crate::domain::text::cut;
use call::Call;
use source::ToolSource;
use tools::{BuiltIn, Toolsets};

pub const SERVER_NAME: &str = CLIENT_SERVER;

/// Unknown tool names are repeated to the caller, up to this length.
const SHOWN_NAME_CHARS: usize = 80;

/// Serves one client; it holds no state of its own, so every request may get a new one.
#[derive(Debug, Clone)]
pub struct FleetServer {
    fleet: Fleet,
    /// If two sources have a tool of the same name, the first one's is called.
    sources: Vec<Arc<dyn ToolSource>>,
}

impl FleetServer {
    fn new(fleet: Fleet, toolsets: Toolsets) -> Self {
        let built_in = BuiltIn::new(fleet.clone(), toolsets);
        Self { fleet, sources: vec![Arc::new(built_in)] }
    }

    async fn offered(&self, principal: &Principal) -> Vec<Tool> {
        let mut offered = Vec::new();
        for source in &self.sources {
            offered.extend(source.list(principal).await);
        }
        offered
    }

    async fn instructions(&self, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
        let principal = principal_of(context)?;
        Ok(instructions::of(principal, &self.offered(principal).await))
    }

    async fn answer(
        &self,
        name: &str,
        arguments: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let (principal, directory) = (principal_of(context)?.clone(), directory_of(context));
        let caller = Caller { principal, surface: Surface::Mcp, directory };
        for source in &self.sources {
            let call = Call::new(self.fleet.clone(), caller.clone(), context);
            if let Some(result) = source.call(name, arguments.clone(), call).await {
                return Ok(result);
            }
        }
        Err(ErrorData::invalid_params(format!("there is no tool '{}'", cut(name, SHOWN_NAME_CHARS)), None))
    }
}

impl ServerHandler for FleetServer {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(implementation)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let instructions = self.instructions(&context).await?;
        context.peer.set_peer_info(request.clone());
        Ok(self.negotiate_initialize(&request)?.with_instructions(instructions))
    }

    /// Clients cache it for this caller only, since the instructions depend on the caller.
    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let instructions = self.instructions(&context).await?;
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info().with_instructions(instructions)))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.offered(principal_of(&context)?).await;
        // The list depends on the caller, so no intermediary may cache it for others.
        Ok(ListToolsResult::with_all_items(tools).with_cache_scope(CacheScope::Private).with_ttl_ms(0))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(self.answer(&request.name, arguments, &context).await?.into())
    }

    /// A call whose arguments are not an object arrives here, since it is no well-formed `tools/call`.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        principal_of(&context)?;
        let named = request.params.as_ref().and_then(|params| params.get("name")?.as_str());
        let Some(name) = named.filter(|_| request.method == "tools/call") else {
            return Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, "method not found", None));
        };
        // Refused as not an object: no part of a malformed call is executed.
        let arguments = Value::Null;
        let result = serde_json::to_value(self.answer(name, arguments, &context).await?);
        result.map(CustomResult::new).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

/// The caller: put into the HTTP request by the layer that checked its token. There is no default.
fn principal_of(context: &RequestContext<RoleServer>) -> Result<&Principal, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    parts
        .and_then(|parts| parts.extensions.get::<Principal>())
        .ok_or_else(|| ErrorData::internal_error("the request was not authenticated", None))
}

/// The client's working directory, as the client reports it.
fn directory_of(context: &RequestContext<RoleServer>) -> Option<PathBuf> {
    let headers = &context.extensions.get::<Parts>()?.headers;
    headers.get(HEADER).map(|value| decode(value.as_bytes()))
}
