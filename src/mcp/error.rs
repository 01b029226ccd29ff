//! Turns an app error into a tool result that the model reads, since clients hide protocol errors from it.

use rmcp::model::CallToolResult;

use crate::app::error::{Code, Error};
use crate::view::error::ErrorBody;

/// The in-band answer: the error body as structured content and the same JSON as text.
pub(super) fn answer(error: &Error, tool: &str) -> CallToolResult {
    if error.code() == Code::Internal {
        tracing::error!(tool.name = tool, error = error as &dyn std::error::Error, "a tool call failed");
    }
    match serde_json::to_value(ErrorBody::of(error, tool)) {
        Ok(body) => CallToolResult::structured_error(body),
        Err(unserializable) => CallToolResult::structured_error(unserializable.to_string().into()),
    }
}
