//! The agent: a coding agent in one Coder workspace, and its eleven statuses.

use std::fmt;

use chrono::{DateTime, Utc};

use super::id::{AgentId, WorkspaceId};
use super::name::AgentName;
use super::word_enum::word_enum;

/// What the store knows of an agent; live state comes from Coder and is kept as the last [`Sighting`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub id: AgentId,
    pub name: AgentName,
    /// Known once Coder has accepted the create; never guessed from the name.
    pub workspace_id: Option<WorkspaceId>,
    pub project: String,
    pub role: String,
    pub spec: String,
    pub pull_request_url: Option<String>,
    /// For the project 'here': the directory whose repository the agent works on.
    pub directory: Option<String>,
    /// Signature of the requesting principal; none for a workspace that was created outside of the fleet.
    pub created_by: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub deleted_at: Option<DateTime<Utc>>,
    pub sighting: Sighting,
}

impl Agent {
    /// The first message to the agent: its spec, and the pull request to work on.
    pub fn first_message(&self) -> String {
        first_message(&self.spec, self.pull_request_url.as_deref())
    }
}

/// The first message to an agent with this spec and pull request.
pub fn first_message(spec: &str, pull_request_url: Option<&str>) -> String {
    match pull_request_url {
        Some(url) => format!("{spec}\n\nThe pull request to work on: {url}"),
        None => spec.to_owned(),
    }
}

/// The last observation of an agent, with the revision of its last visible change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    pub status: AgentStatus,
    pub previous_status: Option<AgentStatus>,
    pub reason: String,
    pub attention: Attention,
    /// Number of the newest start build; 0 before the first.
    pub generation: i64,
    /// When Coder last reported it; none if it never did.
    pub observed_at: Option<DateTime<Utc>>,
    /// Grows with every visible change of any agent: the cursor of waits and events.
    pub revision: i64,
}

word_enum! {
    /// What a wait for agents ends with.
    Until {
        AnyChange = "any_change",
        Idle = "idle",
        Done = "done",
    }
}

word_enum! {
    /// An agent's status.
    AgentStatus {
        Pending = "pending",
        Starting = "starting",
        Busy = "busy",
        Idle = "idle",
        Stopping = "stopping",
        Stopped = "stopped",
        Failed = "failed",
        Canceling = "canceling",
        Canceled = "canceled",
        Deleting = "deleting",
        Deleted = "deleted",
    }
}

word_enum! {
    /// Why a person or a manager should look at an agent.
    Attention {
        None = "none",
        Stuck = "stuck",
        NeedsInput = "needs_input",
        FailedTask = "failed_task",
        Unreachable = "unreachable",
        Parked = "parked",
        OverBudget = "over_budget",
    }
}

impl AgentStatus {
    /// Whether it can take work now.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Busy | Self::Idle)
    }

    /// Whether it will change by itself, so that waiting makes sense.
    pub fn is_moving(self) -> bool {
        matches!(self, Self::Pending | Self::Starting | Self::Stopping | Self::Canceling | Self::Deleting)
    }
}
