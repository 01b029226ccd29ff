//! Requests about agents, converted to commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::MAX_WAIT_SECONDS;
use super::check::{
    agent_name, filled, page_of, pull_request_url, request_token, seconds, spec, statuses, wait_of,
};
use super::defaults::{any_change, change_wait, first_page, list_size, yes};
use super::word::UntilWord;
use crate::app::agents::{
    ChangeAgent, CreateAgent, DeleteAgent, ListAgents, SetMetadata, UnpushedWork, WaitAgents,
};
use crate::app::error::Error;
use crate::domain::metadata::{MetadataKey, check_value};

/// One answer has a row for each agent that was named, and a list has no more on a page.
pub(super) const MAX_NAMED: usize = 100;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAgentInput {
    /// Name of the project (see list_agent_projects).
    pub project: String,
    /// The agent's first task, in Markdown; use the headings Objective, Context, Constraints, Deliverables.
    #[serde(alias = "task")]
    pub spec: String,
    /// 1 to 32 letters, digits and single inner hyphens; generated if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the role (see list_agent_roles); the project's default if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// A pull request to work on: the agent's first message names it, and the agent's branch starts from its head if
    /// the repository's own remote offers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request_url: Option<String>,
    /// Idempotency key: a repeated call with the same key returns the agent of the first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_key: Option<String>,
    /// Seconds to wait until the agent is ready, 0 to 45.
    #[serde(default)]
    pub wait_seconds: i64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListAgentsInput {
    /// One status or a comma-separated list; deleted agents are shown only if the list has 'deleted'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_filter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_filter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_filter: Option<String>,
    /// Page, starting at 1.
    #[serde(default = "first_page")]
    pub page: i64,
    /// 1 to 100, default 50.
    #[serde(default = "list_size")]
    pub page_size: i64,
    /// Also show the workspaces used by squads.
    #[serde(default)]
    pub include_runs: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowAgentInput {
    pub agent_name: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteAgentInput {
    pub agent_name: String,
    /// Save unpushed work first, if that is possible within ten seconds.
    #[serde(default = "yes")]
    pub keep_work: bool,
    /// Seconds to wait until the workspace is deleted, 0 to 45.
    #[serde(default)]
    pub wait_seconds: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_key: Option<String>,
}

/// Arguments of start_agent, stop_agent and restart_agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeAgentInput {
    pub agent_name: String,
    /// Seconds to wait until the change has ended, 0 to 45.
    #[serde(default)]
    pub wait_seconds: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitInput {
    /// Agents to wait for, at most 100; all if omitted.
    #[serde(default)]
    #[schemars(length(max = MAX_NAMED))]
    #[schema(max_items = 100)]
    pub agent_names: Vec<String>,
    /// any_change, idle (every agent is idle or cannot become idle) or done (every agent has ended its task)
    #[serde(default = "any_change")]
    pub until: UntilWord,
    /// 1 to 45, default 40.
    #[serde(default = "change_wait")]
    pub timeout_seconds: i64,
    /// The cursor of the previous answer; only later changes are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetMetadataInput {
    /// An agent may omit it to change its own metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// fleet_mcp_ followed by lower-case letters, digits and underscores
    pub key: String,
    pub value: String,
}

impl CreateAgentInput {
    pub fn into_command(self) -> Result<CreateAgent, Error> {
        let request = request_token(
            self.request_key.as_deref(),
            &Self { wait_seconds: 0, request_key: None, ..self.clone() },
        )?;
        let pull_request_url = self.pull_request_url.as_deref().map(pull_request_url).transpose()?;
        Ok(CreateAgent {
            project: filled("project", &self.project)?,
            spec: spec(&self.spec, pull_request_url.as_deref())?,
            name: self.name.as_deref().map(agent_name).transpose()?,
            role: self.role.as_deref().map(|role| filled("role", role)).transpose()?,
            pull_request_url,
            request,
            wait: wait_of(self.wait_seconds)?,
        })
    }
}

impl ListAgentsInput {
    pub fn into_command(self) -> Result<ListAgents, Error> {
        Ok(ListAgents {
            statuses: self.status_filter.as_deref().map(statuses).transpose()?,
            project: self.project_filter,
            role: self.role_filter,
            page: page_of(self.page, self.page_size)?,
            include_runs: self.include_runs,
        })
    }
}

impl DeleteAgentInput {
    pub fn into_command(self) -> Result<DeleteAgent, Error> {
        let request = request_token(
            self.request_key.as_deref(),
            &Self { wait_seconds: 0, request_key: None, ..self.clone() },
        )?;
        let work = if self.keep_work { UnpushedWork::Keep } else { UnpushedWork::Discard };
        Ok(DeleteAgent { name: self.agent_name, work, request, wait: wait_of(self.wait_seconds)? })
    }
}

impl ChangeAgentInput {
    pub fn into_command(self) -> Result<ChangeAgent, Error> {
        let request = request_token(
            self.request_key.as_deref(),
            &Self { wait_seconds: 0, request_key: None, ..self.clone() },
        )?;
        Ok(ChangeAgent { name: self.agent_name, request, wait: wait_of(self.wait_seconds)? })
    }
}

impl WaitInput {
    pub fn into_command(self) -> Result<WaitAgents, Error> {
        let n_names = self.agent_names.len();
        if n_names > MAX_NAMED {
            let message = format!("{n_names} agents are named; at most {MAX_NAMED} are allowed");
            return Err(Error::invalid("agent_names", message));
        }
        if !(1..=MAX_WAIT_SECONDS).contains(&self.timeout_seconds) {
            return Err(Error::invalid(
                "timeout_seconds",
                format!("timeout_seconds must be between 1 and {MAX_WAIT_SECONDS}"),
            ));
        }
        let cursor = self.cursor.map(|cursor| cursor.trim().parse().ok().filter(|revision| *revision >= 0));
        Ok(WaitAgents {
            names: self.agent_names,
            until: self.until.0,
            timeout: seconds(self.timeout_seconds),
            cursor: match cursor {
                None => None,
                Some(Some(revision)) => Some(revision),
                Some(None) => {
                    return Err(Error::invalid("cursor", "cursor is not valid: omit it to start again"));
                }
            },
        })
    }
}

impl SetMetadataInput {
    pub fn into_command(self) -> Result<SetMetadata, Error> {
        let key = MetadataKey::parse(&self.key).map_err(|error| Error::invalid("key", error.to_string()))?;
        check_value(&self.value).map_err(|error| Error::invalid("value", error.to_string()))?;
        Ok(SetMetadata { name: self.agent_name, key, value: self.value })
    }
}
