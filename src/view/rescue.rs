//! Rescued work as people and managers see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::{Paging, count};
use super::time;
use crate::app::rescue::RescueInfo;
use crate::domain::page::Page;
use crate::domain::rescue::{RescueOutcome, SavedWork};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct RescueList {
    pub rescues: Vec<RescueRow>,
    #[serde(flatten)]
    pub paging: Paging,
}

/// The rescue of a deleted agent's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct RescueRow {
    pub id: String,
    /// The agent's name when it was deleted.
    pub agent_name: String,
    pub project: String,
    /// wanted, trying, saved, nothing or failed
    pub state: String,
    /// The git bundle on the server's machine; null unless saved.
    pub path: Option<String>,
    pub bytes: Option<i64>,
    /// The commit that contains all work, including uncommitted changes.
    pub commit: Option<String>,
    /// What was not saved, or why nothing was saved.
    pub note: Option<String>,
    pub created_at: String,
}

impl From<&Page<RescueInfo>> for RescueList {
    fn from(page: &Page<RescueInfo>) -> Self {
        Self { rescues: page.items.iter().map(RescueRow::from).collect(), paging: Paging::of(page) }
    }
}

impl From<&RescueInfo> for RescueRow {
    fn from(info: &RescueInfo) -> Self {
        let rescue = &info.rescue;
        let (state, saved, note) = parts(&rescue.outcome);
        Self {
            id: rescue.id.to_string(),
            agent_name: rescue.agent_name.to_string(),
            project: rescue.project.clone(),
            state: state.to_owned(),
            path: info.path.as_ref().map(|path| path.display().to_string()),
            bytes: saved.map(|saved| count(saved.bytes)),
            commit: saved.map(|saved| saved.commit.clone()),
            note: note.cloned(),
            created_at: time(rescue.created_at),
        }
    }
}

fn parts(outcome: &RescueOutcome) -> (&'static str, Option<&SavedWork>, Option<&String>) {
    match outcome {
        RescueOutcome::Wanted => ("wanted", None, None),
        RescueOutcome::Trying { .. } => ("trying", None, None),
        RescueOutcome::Saved(saved) => ("saved", Some(saved), saved.note.as_ref()),
        RescueOutcome::Nothing => ("nothing", None, None),
        RescueOutcome::Failed { reason } => ("failed", None, Some(reason)),
    }
}
