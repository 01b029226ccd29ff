//! An agent's history as callers see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::Paging;
use super::task::verified;
use super::time;
use crate::app::history::AgentHistory;
use crate::domain::history::HistoryEntry;
use crate::domain::id::TaskId;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TaskHistory {
    pub agent_name: String,
    pub tasks: Vec<HistoryRow>,
    #[serde(flatten)]
    pub paging: Paging,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct HistoryRow {
    pub id: String,
    /// task or report
    pub kind: String,
    pub message: String,
    /// The task's state, or the state that the agent reported.
    pub state: String,
    pub outcome: Option<String>,
    /// agent, human or manager
    pub source: String,
    pub task_id: Option<String>,
    pub uri: Option<String>,
    pub needs_user_attention: bool,
    pub generation: i64,
    pub created_at: String,
    /// The verified part of a task's outcome (commit, new_commit, pushed, clean); absent if nothing was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<serde_json::Value>,
    /// The states of the task, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<StateRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct StateRow {
    pub state: String,
    pub at: String,
    pub reason: String,
    pub generation: i64,
}

impl From<&AgentHistory> for TaskHistory {
    fn from(history: &AgentHistory) -> Self {
        Self {
            agent_name: history.name.to_string(),
            tasks: history.page.items.iter().map(|entry| row(entry, history)).collect(),
            paging: Paging::of(&history.page),
        }
    }
}

impl From<&HistoryEntry> for HistoryRow {
    fn from(entry: &HistoryEntry) -> Self {
        let line = entry.line();
        Self {
            id: entry.id().to_string(),
            kind: entry.kind().word().into(),
            message: line.message.clone(),
            state: entry.state().to_owned(),
            outcome: entry.outcome().map(str::to_owned),
            source: line.source.word().into(),
            task_id: entry.task_id().map(|id| id.to_string()),
            uri: entry.uri().map(str::to_owned),
            needs_user_attention: entry.needs_answer(),
            generation: line.generation,
            created_at: time(line.created_at),
            verified: None,
            states: Vec::new(),
        }
    }
}

fn row(entry: &HistoryEntry, history: &AgentHistory) -> HistoryRow {
    let moves = history.moves.get(&TaskId(entry.id())).map(Vec::as_slice).unwrap_or_default();
    let states = moves.iter().map(|moved| StateRow {
        state: moved.state.word().into(),
        at: time(moved.at),
        reason: moved.reason.clone(),
        generation: moved.generation,
    });
    let verified = history.verified.get(&TaskId(entry.id())).map(verified);
    HistoryRow { states: states.collect(), verified, ..HistoryRow::from(entry) }
}
