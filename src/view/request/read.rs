//! Requests for lists: history, roles, plain pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::check::page_of;
use super::defaults::{all_kinds, first_page, history_size, list_size};
use super::word::HistoryFilterWord;
use crate::app::error::Error;
use crate::app::history::ShowHistory;
use crate::domain::id::WorkspaceId;
use crate::domain::page::PageRequest;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryInput {
    pub agent_name: String,
    /// Which entries; all if omitted.
    #[serde(default = "all_kinds")]
    #[param(inline)]
    pub kind: HistoryFilterWord,
    #[serde(default = "first_page")]
    pub page: i64,
    /// 1 to 100, default 20.
    #[serde(default = "history_size")]
    pub page_size: i64,
    /// Selects an older agent with the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RolesInput {
    /// Also lists the roles of this project's template and marks its default role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// A tool that takes no arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoInput {}

/// Paging alone, for plain lists.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageInput {
    #[serde(default = "first_page")]
    pub page: i64,
    #[serde(default = "list_size")]
    pub page_size: i64,
}

impl HistoryInput {
    pub fn into_command(self) -> Result<ShowHistory, Error> {
        let workspace = self.workspace_id.as_deref().map(|id| id.parse().map(WorkspaceId));
        Ok(ShowHistory {
            name: self.agent_name,
            kind: self.kind.0.kind(),
            page: page_of(self.page, self.page_size)?,
            workspace: workspace
                .transpose()
                .map_err(|_| Error::invalid("workspace_id", "workspace_id must be a UUID"))?,
        })
    }
}

impl PageInput {
    pub fn into_page(self) -> Result<PageRequest, Error> {
        page_of(self.page, self.page_size)
    }
}
