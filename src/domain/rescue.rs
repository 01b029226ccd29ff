//! Rescues: what became of an agent's unpushed work when the agent was deleted.

use std::fmt;

use chrono::{DateTime, Utc};

use super::id::{AgentId, OperationId, RescueId};
use super::name::AgentName;

/// Work larger than this stays where it is: it could not be brought out in time.
pub const MAX_BYTES: u64 = 200_000_000;

/// One try to save an agent's work; there is one for each delete that keeps work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescue {
    pub id: RescueId,
    /// The delete it belongs to.
    pub operation_id: OperationId,
    pub agent_id: AgentId,
    /// The agent's name at that time; names are used again.
    pub agent_name: AgentName,
    pub project: String,
    pub outcome: RescueOutcome,
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RescueOutcome {
    /// It is to be tried before the workspace goes.
    Wanted,
    /// It is being tried; a restart of ours does not make the time for it longer.
    Trying {
        since: DateTime<Utc>,
    },
    Saved(SavedWork),
    /// Everything there was is on a remote.
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
    /// The commit that holds everything: the uncommitted work too where there was some.
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

/// What is said of it to people, after the agent's name.
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
