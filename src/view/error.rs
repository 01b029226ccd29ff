//! The one error body of all surfaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::error::Error;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ErrorBody {
    /// One of the codes of the contract, such as NOT_FOUND.
    pub code: String,
    pub message: String,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// The next action for the caller.
    pub next_action: String,
    /// The agent that the call is about.
    pub instance_id: Option<String>,
    pub tool_name: Option<String>,
    pub details: serde_json::Value,
}

impl ErrorBody {
    pub fn of(error: &Error, tool_name: &str) -> Self {
        Self {
            code: error.code().as_str().to_owned(),
            message: error.to_string(),
            retryable: error.is_retryable(),
            next_action: error.next_action(),
            instance_id: error.instance(),
            tool_name: Some(tool_name.to_owned()),
            details: error.details(),
        }
    }
}
