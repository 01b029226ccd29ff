//! Agents as callers see them: a compact row for lists, a full record for one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::Paging;
use super::task::TaskSummary;
use super::time;
use super::usage::{UsageDetail, UsageRow};
use crate::app::agents::{AgentChange, AgentPage, Deletion, Mutation, WaitResult};
use crate::app::rescue::RescuedWork;
use crate::app::snapshot::AgentState;
use crate::domain::metadata::{PULL_REQUEST_CHECK_STATUS, PULL_REQUEST_STATUS, PULL_REQUEST_URL, START_NOTE};
use crate::domain::spec::Sections;
use crate::domain::text::{cut, one_line};

/// The length of task texts in lists and of repeated texts; the history has them whole.
const LISTED_TASK_CHARS: usize = 120;
/// Long enough for a note on a pull request and one on an earlier branch; the metadata has longer notes.
const START_NOTE_CHARS: usize = 300;

/// One agent in a list; empty fields are omitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentRow {
    pub name: String,
    /// pending, starting, busy, idle, stopping, stopped, failed, canceling, canceled, deleting or deleted
    pub status: String,
    /// Reason for the status.
    pub reason: String,
    /// none, stuck, needs_input, failed_task, unreachable or parked; over_budget is not used in this version
    pub attention: String,
    pub role: String,
    pub project: String,
    /// In the project 'here': the directory whose repository the agent works on; it may differ from the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Text of the task being worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_task: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_task: Option<TaskSummary>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request_status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request_check_status: Option<String>,
    /// Start of its branch, if unusual: whether the head of a pull request was used, or the new name of an earlier
    /// agent's branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_note: Option<String>,
    /// Usage in its workspace so far; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageRow>,
    /// When Coder last showed this agent; null if never.
    pub observed_at: Option<String>,
}

/// State of the agent's review; always absent in this version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ReviewState {
    /// NONE, WAITING_REVIEW, FEEDBACK, APPROVED or ABANDONED
    pub state: String,
    pub iteration: i64,
    pub max_iterations: i64,
}

/// All details of one agent; absent values are null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentDetail {
    pub name: String,
    pub workspace_id: Option<String>,
    pub status: String,
    pub reason: String,
    pub attention: String,
    pub role: String,
    pub project: String,
    /// In the project 'here': the directory whose repository the agent works on; it may differ from the caller's.
    pub directory: Option<String>,
    pub spec: String,
    pub spec_sections: SpecSections,
    /// Text of the task being worked on; shortened if it is the spec.
    pub current_task: Option<String>,
    pub last_task: Option<TaskSummary>,
    pub review: Option<ReviewState>,
    /// All known fleet_mcp_* values.
    pub metadata: BTreeMap<String, String>,
    pub git: Option<serde_json::Value>,
    /// Usage in its workspace so far, as counted by this server.
    pub usage: Option<UsageDetail>,
    /// Number of the build that last started it.
    pub generation: i64,
    /// Number of builds that were starts, in show_agent only; null elsewhere and while unknown.
    pub starts: Option<i64>,
    /// Connection from the agent to this server, as tested in the workspace: direct, unreachable, unknown, or null
    /// before the test.
    pub callback: Option<String>,
    /// Why the agent cannot call this server, and the remedy.
    pub callback_reason: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub observed_at: Option<String>,
    pub links: Links,
}

/// Which of the headings Objective, Context, Constraints and Deliverables the spec has; a spec of one paragraph needs
/// none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SpecSections {
    pub found: Vec<String>,
    pub missing: Vec<String>,
}

/// Links for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct Links {
    pub workspace: Option<String>,
    pub pull_request: Option<String>,
    /// Why the pull request has no link (metadata has the address as given), or why its status is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request_reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentList {
    pub agents: Vec<AgentRow>,
    #[serde(flatten)]
    pub paging: Paging,
    /// Agents of the whole fleet by status.
    pub counts: BTreeMap<String, i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentShown {
    pub agent: AgentDetail,
}

/// Answer of create, start, stop and restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentChanged {
    /// The row of list_agents; show_agent has all details.
    pub agent: AgentRow,
    pub message: String,
    /// The operation that makes the change; null if nothing had to be changed.
    pub operation_id: Option<String>,
    /// Pass it to wait_for_agents to see the progress of the change.
    pub cursor: String,
    /// Warnings, such as missing headings of a spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentDeleted {
    pub message: String,
    pub deleted_agent: DeletedAgent,
    pub agent_name: String,
    /// Unpushed work that was saved; null if none was saved.
    pub rescued: Option<Rescued>,
    pub operation_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct DeletedAgent {
    pub name: String,
    pub workspace_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct Rescued {
    /// The git bundle on the server's machine.
    pub path: String,
    pub bytes: i64,
    /// The commit that contains all work, including uncommitted changes.
    pub commit: String,
    /// For `fleet-mcp rescue restore`.
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentsWaited {
    /// The agents that changed; with until idle or done also all other named agents.
    pub changed: Vec<ChangedAgent>,
    /// Pass it to the next call, so that no change in between is missed.
    pub cursor: String,
    pub timed_out: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ChangedAgent {
    #[serde(flatten)]
    pub agent: AgentRow,
    pub previous_status: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct MetadataSet {
    pub agent_name: String,
    pub metadata: BTreeMap<String, String>,
}

impl From<&AgentState> for AgentRow {
    fn from(state: &AgentState) -> Self {
        let sighting = &state.agent.sighting;
        Self {
            name: state.agent.name.to_string(),
            status: sighting.status.word().into(),
            reason: listed(&sighting.reason),
            attention: sighting.attention.word().into(),
            role: state.agent.role.clone(),
            project: state.agent.project.clone(),
            directory: state.agent.directory.clone(),
            current_task: state.current_task().map(listed),
            last_task: state.tasks.last.as_ref().map(TaskSummary::listed),
            review: None,
            pull_request_url: state.metadata_value(PULL_REQUEST_URL),
            pull_request_status: state.metadata_value(PULL_REQUEST_STATUS),
            pull_request_check_status: state.metadata_value(PULL_REQUEST_CHECK_STATUS),
            start_note: state.metadata_value(START_NOTE).map(|note| cut(&one_line(&note), START_NOTE_CHARS)),
            usage: UsageRow::of(&state.usage),
            observed_at: sighting.observed_at.map(time),
        }
    }
}

impl From<&AgentState> for AgentDetail {
    fn from(state: &AgentState) -> Self {
        let (agent, current_task) = (&state.agent, state.current_task());
        let first_message = agent.first_message();
        let texts = [agent.spec.as_str(), &first_message, current_task.unwrap_or_default()];
        Self {
            name: agent.name.to_string(),
            workspace_id: agent.workspace_id.map(|id| id.to_string()),
            status: agent.sighting.status.word().into(),
            reason: agent.sighting.reason.clone(),
            attention: agent.sighting.attention.word().into(),
            role: agent.role.clone(),
            project: agent.project.clone(),
            directory: agent.directory.clone(),
            spec: agent.spec.clone(),
            spec_sections: SpecSections::from(Sections::of(&agent.spec)),
            current_task: current_task
                .map(|text| shortened_if_repeated(text, &[&agent.spec, &first_message])),
            last_task: state.tasks.last.as_ref().map(|task| TaskSummary::shortened_if_repeated(task, &texts)),
            review: None,
            metadata: metadata_of(state),
            git: json_of(state, "fleet_mcp_git"),
            usage: UsageDetail::of(&state.usage),
            generation: agent.sighting.generation,
            starts: state.starts,
            callback: state.callback().map(|callback| callback.word().to_owned()),
            callback_reason: state.callback_reason(),
            created_at: time(agent.created_at),
            updated_at: time(agent.updated_at),
            observed_at: agent.sighting.observed_at.map(time),
            links: Links::from(state),
        }
    }
}

impl From<Sections> for SpecSections {
    fn from(sections: Sections) -> Self {
        let words = |headings: Vec<&str>| headings.into_iter().map(str::to_owned).collect();
        Self { found: words(sections.found), missing: words(sections.missing) }
    }
}

impl From<&AgentState> for Links {
    fn from(state: &AgentState) -> Self {
        let given = state.metadata_value(PULL_REQUEST_URL);
        let is_link = given.as_deref().is_some_and(is_web_link);
        let reason = match &given {
            Some(_) if !is_link => Some("the address is not an http or https address"),
            Some(_) if state.metadata_value(PULL_REQUEST_STATUS).is_none() => {
                Some("status unknown: not reported by the agent, no forge configured")
            }
            Some(_) | None => None,
        };
        Self {
            workspace: state.workspace_url.clone(),
            pull_request: given.filter(|_| is_link),
            pull_request_reason: reason.map(str::to_owned),
        }
    }
}

impl From<&AgentPage> for AgentList {
    fn from(list: &AgentPage) -> Self {
        Self {
            agents: list.page.items.iter().map(|state| AgentRow::from(&**state)).collect(),
            paging: Paging::of(&list.page),
            counts: list
                .counts
                .iter()
                .map(|(status, n)| (status.word().to_owned(), super::paging::count(*n)))
                .collect(),
        }
    }
}

impl From<&Mutation> for AgentChanged {
    fn from(mutation: &Mutation) -> Self {
        Self {
            agent: AgentRow::from(&*mutation.agent),
            message: mutation.message.clone(),
            operation_id: mutation.operation.map(|id| id.to_string()),
            cursor: mutation.cursor.to_string(),
            warnings: mutation.warnings.clone(),
        }
    }
}

impl From<&Deletion> for AgentDeleted {
    fn from(deletion: &Deletion) -> Self {
        let name = deletion.name.to_string();
        Self {
            message: deletion.message.clone(),
            deleted_agent: DeletedAgent {
                name: name.clone(),
                workspace_id: deletion.workspace.map(|id| id.to_string()),
            },
            agent_name: name,
            rescued: deletion.rescued.as_ref().map(Rescued::from),
            operation_id: deletion.operation.map(|id| id.to_string()),
        }
    }
}

impl From<&RescuedWork> for Rescued {
    fn from(rescued: &RescuedWork) -> Self {
        Self {
            path: rescued.path.display().to_string(),
            bytes: super::paging::count(rescued.work.bytes),
            commit: rescued.work.commit.clone(),
            id: rescued.id.to_string(),
        }
    }
}

impl From<&WaitResult> for AgentsWaited {
    fn from(waited: &WaitResult) -> Self {
        Self {
            changed: waited.changed.iter().map(ChangedAgent::from).collect(),
            cursor: waited.cursor.to_string(),
            timed_out: waited.timed_out,
        }
    }
}

impl From<&AgentChange> for ChangedAgent {
    fn from(changed: &AgentChange) -> Self {
        Self {
            agent: AgentRow::from(&*changed.agent),
            previous_status: changed.previous_status.map(|status| status.word().to_owned()),
        }
    }
}

impl From<&AgentState> for MetadataSet {
    fn from(state: &AgentState) -> Self {
        Self { agent_name: state.agent.name.to_string(), metadata: metadata_of(state) }
    }
}

/// A text, shortened for lists.
pub(super) fn listed(text: &str) -> String {
    cut(&one_line(text), LISTED_TASK_CHARS)
}

/// The text, shortened if the same answer contains it in one of `texts`.
pub(super) fn shortened_if_repeated(text: &str, texts: &[&str]) -> String {
    if texts.contains(&text) { cut(text, LISTED_TASK_CHARS) } else { text.to_owned() }
}

pub fn metadata_of(state: &AgentState) -> BTreeMap<String, String> {
    state.metadata.iter().map(|(key, dated)| (key.clone(), dated.value.clone())).collect()
}

/// Metadata that the runner writes as JSON; unparsable values stay visible under `metadata`.
fn json_of(state: &AgentState, key: &str) -> Option<serde_json::Value> {
    serde_json::from_str(&state.metadata_value(key)?).ok()
}

fn is_web_link(url: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}
