//! Rescues: the unpushed work of deleted agents.

use std::fmt;

use chrono::{DateTime, Utc};

use super::id::{AgentId, OperationId, RescueId};
use super::name::AgentName;

/// Larger work is not saved: the transfer would take too long.
pub const MAX_BYTES: u64 = 200_000_000;

/// One attempt to save an agent's work; each delete that keeps work has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescue {
    pub id: RescueId,
    /// The delete it belongs to.
    pub operation_id: OperationId,
    pub agent_id: AgentId,
    /// The agent's name at that time; names are reused.
    pub agent_name: AgentName,
    pub project: String,
    pub outcome: RescueOutcome,
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RescueOutcome {
    /// To be attempted before the workspace is deleted.
    Wanted,
    /// In progress; a restart of ours does not extend its time limit.
    Trying {
        since: DateTime<Utc>,
    },
    Saved(SavedWork),
    /// Everything was already on a remote.
    Nothing,
    Failed {
        reason: String,
    },
}

/// A git bundle of an agent's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedWork {
    /// Its name in the directory of rescued work.
    pub file: String,
    pub bytes: u64,
    /// The commit that contains everything, including uncommitted work.
    pub commit: String,
    /// What could not be saved with it.
    pub note: Option<String>,
}

impl Rescue {
    pub fn of(
        operation_id: OperationId,
        agent: (AgentId, &AgentName),
        project: &str,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            id: RescueId::fresh(),
            operation_id,
            agent_id: agent.0,
            agent_name: agent.1.clone(),
            project: project.to_owned(),
            outcome: RescueOutcome::Wanted,
            created_at: now,
        }
    }
}

impl RescueOutcome {
    pub fn is_over(&self) -> bool {
        match self {
            Self::Wanted | Self::Trying { .. } => false,
            Self::Saved(_) | Self::Nothing | Self::Failed { .. } => true,
        }
    }
}

/// The description for people, after the agent's name.
impl fmt::Display for RescueOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wanted => f.write_str("its work will be saved first"),
            Self::Trying { .. } => f.write_str("its work is being saved"),
            Self::Saved(SavedWork { note: None, .. }) => f.write_str("its work was saved"),
            Self::Saved(SavedWork { note: Some(note), .. }) => write!(f, "its work was saved, but {note}"),
            Self::Nothing => f.write_str("it had no unpushed work"),
            Self::Failed { reason } => write!(f, "its work was not saved: {reason}"),
        }
    }
}
