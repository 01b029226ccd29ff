//! Tool sources: each lists the tools that a caller is offered and answers calls of them.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use rmcp::model::{CallToolResult, Tool};
use serde_json::Value;

use super::call::Call;
use crate::domain::access::Principal;

/// Tools that are listed and called by name. The fleet's own are [`super::tools::BuiltIn`].
pub(super) trait ToolSource: Debug + Send + Sync {
    /// The tools offered to this principal, as clients see them.
    fn list<'a>(&'a self, principal: &'a Principal) -> BoxFuture<'a, Vec<Tool>>;

    /// The result of a call, also of a failed one, for the model to read; none if the source has no such tool.
    fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Value,
        call: Call,
    ) -> BoxFuture<'a, Option<CallToolResult>>;
}
