//! What callers send: one struct a tool, shared by MCP arguments, REST bodies and queries, turned into app commands.

use std::time::Duration;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::{IntoParams, ToSchema};

use crate::app::agents::{
    ChangeAgent, CreateAgent, DeleteAgent, ListAgents, RequestToken, SetMetadata, Until, WaitAgents, Work,
};
use crate::app::error::Error;
use crate::app::history::ShowHistory;
use crate::app::tokens::CreateToken;
use crate::domain::access::AllowedProjects;
use crate::domain::agent::AgentStatus;
use crate::domain::history::HistoryKind;
use crate::domain::id::WorkspaceId;
use crate::domain::metadata::{MetadataKey, check_value};
use crate::domain::name::AgentName;
use crate::domain::page::{PageError, PageRequest};
use crate::domain::role::RoleKind;
use crate::domain::spec::Spec;

/// The longest a call may wait, so that it answers before its client gives up.
pub const MAX_WAIT_SECONDS: i64 = 45;
const DEFAULT_WAIT_FOR_CHANGE: i64 = 40;
const MAX_KEY_CHARS: usize = 200;
const MAX_URL_CHARS: usize = 2_000;

/// Reads a request from JSON; the error names the field.
pub fn parse<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let message = error.inner().to_string();
        let path = error.path().to_string();
        let field = if path == "." || message.starts_with("unknown field") {
            quoted(&message).unwrap_or(path)
        } else {
            path
        };
        Error::invalid(&field, message)
    })
}

/// serde names a missing or unknown field in backticks only.
fn quoted(message: &str) -> Option<String> {
    message.split('`').nth(1).map(str::to_owned)
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAgentInput {
    /// Name of the project (see list_agent_projects).
    pub project: String,
    /// What the agent is to do, in Markdown; headings Objective, Context, Constraints, Deliverables help it.
    #[serde(alias = "task")]
    pub spec: String,
    /// 1 to 32 letters, digits and single inner hyphens; left out, a name is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the role (see list_agent_roles); the project's default if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// A pull request the agent is to work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request_url: Option<String>,
    /// Makes a repeated call the same call: the second one returns the first one's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_key: Option<String>,
    /// Seconds to wait for the agent to be ready, 0 to 45.
    #[serde(default)]
    pub wait_seconds: i64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListAgentsInput {
    /// One status or a comma-separated list; deleted agents are shown only when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_filter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_filter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_filter: Option<String>,
    /// Pages are counted from 1.
    #[serde(default = "first_page")]
    pub page: i64,
    /// 1 to 100, 50 if left out.
    #[serde(default = "list_size")]
    pub page_size: i64,
    /// Also show the workspaces that squads and spawns run in.
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
    /// Save unpushed work first, where that is possible within ten seconds.
    #[serde(default = "yes")]
    pub keep_work: bool,
    /// Seconds to wait for the workspace to be gone, 0 to 45.
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
    /// Seconds to wait for the change to be done, 0 to 45.
    #[serde(default)]
    pub wait_seconds: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryInput {
    pub agent_name: String,
    /// all, task or report
    #[serde(default = "all_kinds")]
    pub kind: String,
    #[serde(default = "first_page")]
    pub page: i64,
    /// 1 to 100, 20 if left out.
    #[serde(default = "history_size")]
    pub page_size: i64,
    /// Selects an older agent of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitInput {
    /// Agents to watch; all of them if left out.
    #[serde(default)]
    pub agent_names: Vec<String>,
    /// any_change, idle (every one is idle or will not become so) or done (every one has ended its task)
    #[serde(default = "any_change")]
    pub until: String,
    /// 1 to 45, 40 if left out.
    #[serde(default = "change_wait")]
    pub timeout_seconds: i64,
    /// The cursor of the previous answer: changes after it count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RolesInput {
    /// Adds the roles of this project's template and says which one is its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// A tool that takes no arguments.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoInput {}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetMetadataInput {
    /// An agent may leave it out: it means itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// fleet_mcp_ and lower-case letters, digits, underscores
    pub key: String,
    pub value: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTokenInput {
    /// operator, manager or agent
    pub kind: String,
    /// How the audit trail names its holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The agent an agent token belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Projects a manager token may act on; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<i64>,
}

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

fn first_page() -> i64 {
    1
}
fn list_size() -> i64 {
    50
}
fn history_size() -> i64 {
    20
}
fn change_wait() -> i64 {
    DEFAULT_WAIT_FOR_CHANGE
}
fn yes() -> bool {
    true
}
fn all_kinds() -> String {
    "all".into()
}
fn any_change() -> String {
    "any_change".into()
}

impl CreateAgentInput {
    pub fn into_command(self) -> Result<CreateAgent, Error> {
        let request = request_token(
            self.request_key.as_deref(),
            &Self { wait_seconds: 0, request_key: None, ..self.clone() },
        )?;
        Ok(CreateAgent {
            project: filled("project", &self.project)?,
            spec: Spec::parse(&self.spec).map_err(|error| Error::invalid("spec", error.to_string()))?,
            name: self.name.as_deref().map(agent_name).transpose()?,
            role: self.role.as_deref().map(|role| filled("role", role)).transpose()?,
            pull_request_url: self.pull_request_url.as_deref().map(pull_request_url).transpose()?,
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
        let work = if self.keep_work { Work::Keep } else { Work::Discard };
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

impl HistoryInput {
    pub fn into_command(self) -> Result<ShowHistory, Error> {
        let kind = match self.kind.as_str() {
            "all" => None,
            word => Some(
                HistoryKind::parse(word)
                    .ok_or_else(|| Error::invalid("kind", "kind is all, task or report"))?,
            ),
        };
        let workspace = self.workspace_id.as_deref().map(|id| id.parse().map(WorkspaceId));
        Ok(ShowHistory {
            name: self.agent_name,
            kind,
            page: page_of(self.page, self.page_size)?,
            workspace: workspace
                .transpose()
                .map_err(|_| Error::invalid("workspace_id", "workspace_id is not a UUID"))?,
        })
    }
}

impl WaitInput {
    pub fn into_command(self) -> Result<WaitAgents, Error> {
        let until = match self.until.as_str() {
            "any_change" => Until::AnyChange,
            "idle" => Until::Idle,
            "done" => Until::Done,
            _ => return Err(Error::invalid("until", "until is any_change, idle or done")),
        };
        if !(1..=MAX_WAIT_SECONDS).contains(&self.timeout_seconds) {
            return Err(Error::invalid(
                "timeout_seconds",
                format!("timeout_seconds goes from 1 to {MAX_WAIT_SECONDS}"),
            ));
        }
        let cursor = self.cursor.map(|cursor| cursor.trim().parse().ok().filter(|revision| *revision >= 0));
        Ok(WaitAgents {
            names: self.agent_names,
            until,
            timeout: seconds(self.timeout_seconds),
            cursor: match cursor {
                None => None,
                Some(Some(revision)) => Some(revision),
                Some(None) => {
                    return Err(Error::invalid(
                        "cursor",
                        "cursor is not one of ours: leave it out to start anew",
                    ));
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

impl CreateTokenInput {
    pub fn into_command(self, now: DateTime<Utc>) -> Result<CreateToken, Error> {
        let kind = match self.kind.as_str() {
            "operator" => Some(RoleKind::Operator),
            "manager" => Some(RoleKind::Manager),
            "agent" => None,
            _ => return Err(Error::invalid("kind", "kind is operator, manager or agent")),
        };
        let lifetime = self.expires_in_seconds.map(|n| (1..=315_360_000).contains(&n).then_some(n));
        if lifetime == Some(None) {
            return Err(Error::invalid("expires_in_seconds", "a lifetime goes from one second to ten years"));
        }
        Ok(CreateToken {
            kind,
            name: self.name,
            role: self.role,
            agent: self.agent,
            projects: self.projects.map_or(AllowedProjects::All, AllowedProjects::Only),
            expires_at: lifetime.flatten().map(|n| now + chrono::TimeDelta::seconds(n)),
        })
    }
}

impl PageInput {
    pub fn into_page(self) -> Result<PageRequest, Error> {
        page_of(self.page, self.page_size)
    }
}

fn filled(field: &str, text: &str) -> Result<String, Error> {
    let text = text.trim();
    if text.is_empty() {
        Err(Error::invalid(field, format!("{field} is blank")))
    } else {
        Ok(text.to_owned())
    }
}

fn agent_name(text: &str) -> Result<AgentName, Error> {
    AgentName::parse(text).map_err(|error| Error::invalid("name", error.to_string()))
}

fn pull_request_url(text: &str) -> Result<String, Error> {
    let is_web = url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if !is_web || text.len() > MAX_URL_CHARS {
        return Err(Error::invalid("pull_request_url", "pull_request_url is not an http or https address"));
    }
    Ok(text.to_owned())
}

fn statuses(list: &str) -> Result<Vec<AgentStatus>, Error> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| AgentStatus::parse(word).ok_or_else(|| unknown_status(word))).collect()
}

fn unknown_status(word: &str) -> Error {
    let known: Vec<&str> = AgentStatus::ALL.iter().map(|status| status.word()).collect();
    Error::invalid(
        "status_filter",
        format!("'{word}' is not a status; the statuses are {}", known.join(", ")),
    )
}

fn page_of(page: i64, size: i64) -> Result<PageRequest, Error> {
    PageRequest::parse(page, size).map_err(|error| {
        let field = match error {
            PageError::Page(_) => "page",
            PageError::Size(_) => "page_size",
        };
        Error::invalid(field, error.to_string())
    })
}

fn wait_of(wait_seconds: i64) -> Result<Duration, Error> {
    if !(0..=MAX_WAIT_SECONDS).contains(&wait_seconds) {
        return Err(Error::invalid(
            "wait_seconds",
            format!("wait_seconds goes from 0 to {MAX_WAIT_SECONDS}"),
        ));
    }
    Ok(seconds(wait_seconds))
}

fn seconds(n: i64) -> Duration {
    Duration::from_secs(n.unsigned_abs())
}

/// The key and what it stands for: the same key with other arguments is refused.
fn request_token(key: Option<&str>, arguments: &impl Serialize) -> Result<Option<RequestToken>, Error> {
    let Some(key) = key else { return Ok(None) };
    if key.trim().is_empty() || key.chars().count() > MAX_KEY_CHARS {
        return Err(Error::invalid(
            "request_key",
            format!("request_key has 1 to {MAX_KEY_CHARS} characters"),
        ));
    }
    let canonical =
        serde_json::to_vec(arguments).map_err(|error| Error::invalid("request_key", error.to_string()))?;
    Ok(Some(RequestToken { key: key.to_owned(), fingerprint: Sha256::digest(&canonical).into() }))
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
