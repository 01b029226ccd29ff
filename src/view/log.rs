//! An agent's log as callers see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::Paging;
use super::time;
use crate::app::logs::AgentLog;
use crate::domain::log::LogEntry;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct LogPage {
    pub agent_name: String,
    /// Newest first.
    pub logs: Vec<LogRow>,
    #[serde(flatten)]
    pub paging: Paging,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct LogRow {
    pub id: String,
    pub time: String,
    /// input: message to the agent; output: answer of the agent
    #[serde(rename = "type")]
    pub kind: String,
    pub content: String,
}

impl From<&AgentLog> for LogPage {
    fn from(log: &AgentLog) -> Self {
        Self {
            agent_name: log.name.to_string(),
            logs: log.page.items.iter().map(LogRow::from).collect(),
            paging: Paging::of(&log.page),
        }
    }
}

impl From<&LogEntry> for LogRow {
    fn from(entry: &LogEntry) -> Self {
        Self {
            id: format!("{}-{}", entry.conversation, entry.number),
            time: time(entry.time),
            kind: entry.kind.word().into(),
            content: entry.content.clone(),
        }
    }
}
