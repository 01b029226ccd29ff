//! Squads as callers see them: results of members, pages of an output, and running work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::agent::listed;
use super::output::{Cut, cut};
use super::shorten::Path;
use super::{paging::count, time};
use crate::app::squads::{OutputPage, SquadOutput, SquadOverview, SquadShown};
use crate::domain::role::Role;
use crate::domain::squad::{self, Member, Squad};

/// The paged outputs of members in answers about one squad; squad_status returns the rest.
pub(crate) const OUTPUTS: [Path; 2] = ["members.*.rawStdout", "members.*.rawStderr"];

/// Answer of list_roles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SquadRoles {
    pub roles: Vec<SquadRole>,
    /// Role files that are not valid, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SquadRole {
    pub id: String,
    pub name: String,
    pub description: String,
}

/// Answer of start_squad_members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SquadResult {
    #[serde(rename = "squadId")]
    pub squad_id: String,
    /// In the order given.
    pub members: Vec<SquadMember>,
    /// As given by the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SquadMember {
    #[serde(rename = "memberId")]
    pub member_id: String,
    #[serde(rename = "roleId")]
    pub role_id: String,
    /// Absolute working directory; as given if the member did not start.
    pub cwd: String,
    /// Pass it to continue the same conversation; stateful squads only.
    #[serde(rename = "chatId", default, skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    /// completed, error or timeout; waiting or running before that
    pub status: String,
    /// Why the member is not completed, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its unparsed output; only the beginning of long output.
    #[serde(rename = "rawStdout")]
    pub raw_stdout: String,
    #[serde(rename = "rawStderr")]
    pub raw_stderr: String,
    pub stdout_bytes: i64,
    pub stderr_bytes: i64,
    /// The output is longer than shown: squad_status with memberId and stream returns the rest.
    pub truncated: bool,
    /// When the output was removed because of its age; absent while it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_removed_at: Option<String>,
}

/// Answer of squad_status: one squad, one output, or all running work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SquadStatus {
    #[serde(rename = "squadId", default, skip_serializing_if = "Option::is_none")]
    pub squad_id: Option<String>,
    /// True if all members have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<SquadMember>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
    /// A member's output, starting at offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// Offset of the next page; absent at the end of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// When the output was removed because of its age; absent while it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_removed_at: Option<String>,
    /// Busy agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_agents: Option<Vec<ActiveAgent>>,
    /// Queued tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_tasks: Option<Vec<PendingTask>>,
    /// Your squads of the last 24 hours, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squads: Option<Vec<SquadSummary>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ActiveAgent {
    pub name: String,
    pub role: String,
    pub current_task: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct PendingTask {
    pub id: String,
    pub agent_name: String,
    pub message: String,
    pub created_at: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct SquadSummary {
    #[serde(rename = "squadId")]
    pub squad_id: String,
    pub done: bool,
    pub created_at: String,
    pub members: Vec<MemberSummary>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct MemberSummary {
    #[serde(rename = "memberId")]
    pub member_id: String,
    #[serde(rename = "roleId")]
    pub role_id: String,
    pub status: String,
}

impl SquadRoles {
    pub fn of(roles: &[Role], problems: Vec<String>) -> Self {
        let role = |role: &Role| SquadRole {
            id: role.id.clone(),
            name: role.name.clone(),
            description: role.description.clone(),
        };
        Self { roles: roles.iter().map(role).collect(), problems }
    }
}

impl From<&SquadShown> for SquadResult {
    fn from(shown: &SquadShown) -> Self {
        let pairs = shown.squad.members.iter().zip(&shown.outputs);
        Self {
            squad_id: shown.squad.id.to_string(),
            members: pairs.map(|(member, output)| SquadMember::of(member, output)).collect(),
            metadata: metadata(&shown.squad),
        }
    }
}

impl From<&SquadShown> for SquadStatus {
    fn from(shown: &SquadShown) -> Self {
        let SquadResult { squad_id, members, metadata } = SquadResult::from(shown);
        let done = Some(shown.squad.is_ended());
        Self { squad_id: Some(squad_id), done, members: Some(members), metadata, ..Self::default() }
    }
}

impl SquadStatus {
    /// A page of an output, at most so many characters of JSON.
    pub fn of_output(page: &OutputPage, chars: usize) -> Self {
        let Cut { text, n_bytes } =
            cut(&page.bytes, chars, page.offset + page.bytes.len() as u64 >= page.kept);
        let end = page.offset + n_bytes as u64;
        let has_more = end < page.kept || !page.is_final;
        Self {
            text: Some(text),
            offset: Some(count(page.offset)),
            next_offset: has_more.then(|| count(end)),
            total_bytes: Some(count(page.written)),
            output_removed_at: page.removed_at.map(time),
            ..Self::default()
        }
    }
}

impl From<&SquadOverview> for SquadStatus {
    fn from(overview: &SquadOverview) -> Self {
        let active = overview.active.iter().map(|state| ActiveAgent {
            name: state.agent.name.to_string(),
            role: state.agent.role.clone(),
            current_task: state.current_task().map(listed),
        });
        let pending = overview.pending.iter().map(|(state, task)| PendingTask {
            id: task.id.to_string(),
            agent_name: state.agent.name.to_string(),
            message: listed(&task.entry.message),
            created_at: time(task.entry.created_at),
        });
        Self {
            active_agents: Some(active.collect()),
            pending_tasks: Some(pending.collect()),
            squads: Some(overview.squads.iter().map(summary).collect()),
            ..Self::default()
        }
    }
}

impl SquadMember {
    fn of(member: &Member, output: &SquadOutput) -> Self {
        let shown = |page: &OutputPage| cut(&page.bytes, usize::MAX, page.bytes.len() as u64 >= page.kept);
        let (stdout, stderr) = (shown(&output.stdout), shown(&output.stderr));
        let is_cut =
            |cut: &Cut, page: &OutputPage| page.removed_at.is_none() && (cut.n_bytes as u64) < page.written;
        Self {
            member_id: member.id.to_string(),
            role_id: member.role.clone(),
            cwd: member.cwd.as_ref().or(member.wanted_cwd.as_ref()).cloned().unwrap_or_default(),
            chat_id: member.chat_to_continue().map(str::to_owned),
            status: member.status().word().to_owned(),
            reason: member.reason(),
            truncated: is_cut(&stdout, &output.stdout) || is_cut(&stderr, &output.stderr),
            raw_stdout: stdout.text,
            raw_stderr: stderr.text,
            stdout_bytes: count(output.stdout.written),
            stderr_bytes: count(output.stderr.written),
            output_removed_at: output.stdout.removed_at.map(time),
        }
    }
}

fn metadata(squad: &Squad) -> Option<serde_json::Value> {
    squad.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok())
}

fn summary(squad: &squad::SquadSummary) -> SquadSummary {
    let member = |member: &squad::MemberSummary| MemberSummary {
        member_id: member.id.to_string(),
        role_id: member.role.clone(),
        status: member.status.word().to_owned(),
    };
    SquadSummary {
        squad_id: squad.id.to_string(),
        done: squad.is_ended(),
        created_at: time(squad.created_at),
        members: squad.members.iter().map(member).collect(),
    }
}
