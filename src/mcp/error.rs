//! Maps an app error to a tool result that the model reads, since clients hide protocol errors from it.

use rmcp::model::{CallToolResult, ContentBlock};

use crate::app::error::{Code, Error};
use crate::view::error::ErrorBody;

/// The in-band error: the error body as text only. Clients validate structured content against the tool's
/// `outputSchema`, which describes results, and would replace our error by their own.
pub(super) fn answer(error: &Error, tool: &str) -> CallToolResult {
    if error.code() == Code::Internal {
        tracing::error!(tool.name = tool, error = error as &dyn std::error::Error, "a tool call failed");
    }
    let body = serde_json::to_string(&ErrorBody::of(error, tool));
    CallToolResult::error(vec![ContentBlock::text(body.unwrap_or_else(|error| error.to_string()))])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::access::Denial;
    use crate::domain::agent::AgentStatus;
    use crate::domain::operation::Failure;
    use crate::domain::role::RoleKind;

    fn name() -> String {
        "one".to_owned()
    }

    fn failure(code: &str) -> Error {
        Error::Operation(Failure { code: code.to_owned(), message: "the build timed out".to_owned() })
    }

    #[test]
    fn every_kind_of_error_is_a_result_with_its_code() {
        let cases = [
            (Error::invalid("spec", "blank"), "INVALID_INPUT", false),
            (Error::AgentNotFound(name()), "NOT_FOUND", false),
            (Error::TokenNotFound(name()), "NOT_FOUND", false),
            (Error::AlreadyExists(name()), "ALREADY_EXISTS", false),
            (Error::NotReady { name: name(), status: AgentStatus::Stopped }, "AGENT_NOT_READY", true),
            (Error::Forbidden(Denial::Kind(RoleKind::Coding)), "FORBIDDEN", false),
            (Error::KeyReused, "KEY_REUSED", false),
            (Error::CoderUnavailable(name()), "CODER_UNAVAILABLE", true),
            (Error::CoderRejected(name()), "CODER_REJECTED", false),
            (Error::RateLimited, "RATE_LIMITED", true),
            (failure("TIMEOUT"), "TIMEOUT", true),
            (failure("a word of some later version"), "INTERNAL", true),
        ];
        for (error, code, retryable) in cases {
            let result = serde_json::to_value(answer(&error, "show_agent")).unwrap();
            let text = result["content"][0]["text"].as_str().unwrap();
            let body: Value = serde_json::from_str(text).unwrap();
            let content = json!([{ "type": "text", "text": text }]);
            assert_eq!((&result["isError"], &result["content"]), (&json!(true), &content));
            assert_eq!(result.get("structuredContent"), None);
            assert_eq!((&body["code"], &body["retryable"]), (&json!(code), &json!(retryable)), "{error:?}");
            assert!(!body["next_action"].as_str().unwrap().is_empty(), "{error:?}");
        }
    }
}
