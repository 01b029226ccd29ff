//! Requests about squads, converted to commands.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::check::{filled, request_token, wait_of};
use super::word::RunStreamWord;
use crate::app::error::Error;
use crate::app::squads::{NewMember, ShowOutput, StartSquad};
use crate::domain::id::SquadId;
use crate::domain::run::RunStream;
use crate::domain::spec::MAX_BYTES;
use crate::domain::squad::StateMode;

const MOST_MEMBERS: usize = 50;
const MAX_METADATA_BYTES: usize = 16 * 1024;
const MAX_PATH_BYTES: usize = 4_096;
const LONGEST_PAGE: i64 = 1_000_000;
const USUAL_PAGE: i64 = 16_000;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartSquadInput {
    /// 1 to 50 members; the results have the same order.
    pub members: Vec<SquadMemberInput>,
    /// An object of the caller, returned unchanged with the squad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// Return at once; squad_status shows the progress.
    #[serde(default, rename = "async")]
    pub is_async: bool,
    /// Idempotency key: a repeated call with the same key returns the squad of the first call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SquadMemberInput {
    /// The member's role (see list_roles).
    #[serde(rename = "roleId")]
    pub role_id: String,
    /// The member's task, self-contained.
    pub task: String,
    /// Directory inside the workspace, relative to its root; the root if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The chat to continue, from an earlier result; a new one starts if omitted or blank.
    #[serde(rename = "chatId", default, skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    /// The agent whose workspace the member uses; if omitted: the caller's own, or the workspace for runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SquadStatusInput {
    /// One squad; if omitted: busy agents, queued tasks, and your squads of the last 24 hours.
    #[serde(rename = "squadId", default, skip_serializing_if = "Option::is_none")]
    #[param(rename = "squadId")]
    pub squad_id: Option<String>,
    /// A member of the squad, to read more of its output.
    #[serde(rename = "memberId", default, skip_serializing_if = "Option::is_none")]
    #[param(rename = "memberId")]
    pub member_id: Option<String>,
    /// stdout or stderr, with memberId; default stdout
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub stream: Option<RunStreamWord>,
    /// Offset to continue from, in bytes: next_offset of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// Maximum bytes to read, 1 to 1000000, default 16000; an answer with a size limit has fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// With squadId: seconds to wait for the next member to end, 0 to 45.
    #[serde(default)]
    pub wait_seconds: i64,
}

/// A parsed request of squad_status.
#[derive(Debug, Clone)]
pub enum SquadQuery {
    Overview,
    One { squad: SquadId, wait: Duration },
    Output(ShowOutput),
}

impl StartSquadInput {
    pub fn into_command(self, mode: StateMode) -> Result<StartSquad, Error> {
        let request =
            request_token(self.request_key.as_deref(), &Self { request_key: None, ..self.clone() })?;
        if self.members.is_empty() || self.members.len() > MOST_MEMBERS {
            return Err(Error::invalid("members", format!("a squad must have 1 to {MOST_MEMBERS} members")));
        }
        let metadata = self.metadata.map(|metadata| serde_json::Value::Object(metadata).to_string());
        if metadata.as_ref().is_some_and(|text| text.len() > MAX_METADATA_BYTES) {
            return Err(Error::invalid(
                "metadata",
                format!("metadata may have at most {MAX_METADATA_BYTES} bytes"),
            ));
        }
        let members = self.members.into_iter().enumerate().map(|(n, member)| member.into_member(n, mode));
        Ok(StartSquad { members: members.collect::<Result<_, _>>()?, metadata, request })
    }
}

impl SquadMemberInput {
    fn into_member(self, n: usize, mode: StateMode) -> Result<NewMember, Error> {
        let field = |name: &str| format!("members[{n}].{name}");
        if mode == StateMode::Stateless && self.chat_id.is_some() {
            let message =
                "chatId is for stateful squads only, and this server's squads are stateless: omit chatId";
            return Err(Error::invalid(&field("chatId"), message));
        }
        filled(&field("task"), &self.task)?;
        if self.task.len() > MAX_BYTES {
            return Err(Error::invalid(&field("task"), format!("a task may have at most {MAX_BYTES} bytes")));
        }
        let cwd = not_blank(self.cwd);
        if cwd.as_ref().is_some_and(|cwd| cwd.len() > MAX_PATH_BYTES || cwd.contains('\0')) {
            return Err(Error::invalid(&field("cwd"), "cwd is not a path"));
        }
        Ok(NewMember {
            role: filled(&field("roleId"), &self.role_id)?,
            task: self.task,
            cwd,
            chat: not_blank(self.chat_id),
            agent: not_blank(self.agent_name),
        })
    }
}

impl SquadStatusInput {
    pub fn into_query(self) -> Result<SquadQuery, Error> {
        let wait = wait_of(self.wait_seconds)?;
        let stream = self.stream.map_or(RunStream::Stdout, |stream| stream.0);
        let offset = u64::try_from(self.offset.unwrap_or(0))
            .map_err(|_| Error::invalid("offset", "offset must be a number of bytes, 0 or more"))?;
        let limit = self.limit.unwrap_or(USUAL_PAGE);
        if !(1..=LONGEST_PAGE).contains(&limit) {
            return Err(Error::invalid("limit", format!("limit must be between 1 and {LONGEST_PAGE}")));
        }
        match (not_blank(self.squad_id), not_blank(self.member_id)) {
            (None, None) => Ok(SquadQuery::Overview),
            (None, Some(_)) => Err(Error::invalid("squadId", "memberId needs a squadId")),
            (Some(squad), None) => {
                let id = squad.parse().map(SquadId).map_err(|_| Error::SquadNotFound(squad))?;
                Ok(SquadQuery::One { squad: id, wait })
            }
            (Some(squad), Some(member)) => Ok(SquadQuery::Output(ShowOutput {
                squad,
                member,
                stream,
                offset,
                limit: limit.unsigned_abs(),
            })),
        }
    }
}

fn not_blank(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::parse;
    use super::*;

    fn field(arguments: Value, mode: StateMode) -> Value {
        let command = parse::<StartSquadInput>(arguments).and_then(|input| input.into_command(mode));
        command.unwrap_err().details()["field"].clone()
    }

    #[test]
    fn the_member_and_field_that_are_wrong_are_named() {
        let good = json!({ "roleId": "coder", "task": "x" });
        let with = |name: &str, value: Value| {
            let mut bad = good.clone();
            bad[name] = value;
            json!({ "members": [good, bad] })
        };
        let cases = [
            (json!({}), "members"),
            (json!({ "members": [] }), "members"),
            (json!({ "members": vec![good.clone(); 51] }), "members"),
            (with("task", json!(" ")), "members[1].task"),
            (with("roleId", json!("")), "members[1].roleId"),
            (with("chatId", json!("c")), "members[1].chatId"),
            (with("chatId", json!("")), "members[1].chatId"),
            (with("cwd", json!("a\u{0}b")), "members[1].cwd"),
            (with("engine", json!("codex")), "members[1].engine"),
            (with("task", json!(7)), "members[1].task"),
            (json!({ "members": [good, { "roleId": "coder" }] }), "members[1].task"),
            (json!({ "members": [good, {}] }), "members[1].roleId"),
            (json!({ "members": [good], "engine": "codex" }), "engine"),
        ];
        for (arguments, expected) in cases {
            assert_eq!(field(arguments.clone(), StateMode::Stateless), expected, "{arguments}");
        }
    }

    #[test]
    fn a_blank_chat_begins_a_new_one() {
        let member = json!({ "roleId": " coder ", "task": " x\n", "chatId": " ", "cwd": "" });
        let input = parse::<StartSquadInput>(json!({ "members": [member] })).unwrap();
        let member = input.into_command(StateMode::Stateful).unwrap().members.remove(0);
        assert_eq!(
            (member.role.as_str(), member.task.as_str(), member.chat, member.cwd),
            ("coder", " x\n", None, None)
        );
    }
}
