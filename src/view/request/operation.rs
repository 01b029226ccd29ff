//! Requests to list and cancel operations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::check::{filled, page_of, wait_of};
use super::defaults::{first_page, list_size};
use crate::app::error::Error;
use crate::app::operations::{CancelOperation, EndedOperations, ListOperations};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListOperationsInput {
    /// Only operations of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_filter: Option<String>,
    /// Also the newest operations that have ended.
    #[serde(default)]
    pub include_ended: bool,
    #[serde(default = "first_page")]
    pub page: i64,
    /// 1 to 100, default 50.
    #[serde(default = "list_size")]
    pub page_size: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelOperationInput {
    /// The operation_id of list_operations, or of the call that started the operation.
    pub operation_id: String,
    /// Seconds to wait until the operation has ended, 0 to 45.
    #[serde(default)]
    pub wait_seconds: i64,
}

impl ListOperationsInput {
    pub fn into_command(self) -> Result<ListOperations, Error> {
        let ended = if self.include_ended { EndedOperations::Include } else { EndedOperations::Exclude };
        Ok(ListOperations { agent: self.agent_filter, ended, page: page_of(self.page, self.page_size)? })
    }
}

impl CancelOperationInput {
    pub fn into_command(self) -> Result<CancelOperation, Error> {
        Ok(CancelOperation {
            id: filled("operation_id", &self.operation_id)?,
            wait: wait_of(self.wait_seconds)?,
        })
    }
}
