//! The state of an agent's app, in terms of our rules.

use chrono::{DateTime, Utc};

/// The runner's name for the workspace's initial prompt, which has no task id.
pub const PROMPT_KEY: &str = "prompt";

/// One observation of an agent's app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppSeen {
    /// Not requested, since the workspace is not running.
    Unasked,
    /// The workspace has no AgentAPI app.
    Absent,
    /// An app answers that does not speak AgentAPI.
    Foreign,
    /// It exists and does not answer.
    Silent {
        reason: String,
    },
    Runner(RunnerSeen),
    AgentApi(AgentApiSeen),
}

/// Our own runner: every message of the conversation is a turn with an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerSeen {
    pub is_stable: bool,
    pub turns: Vec<TurnSeen>,
    /// The number of older turns that it no longer reports.
    pub n_forgotten: usize,
    pub git: Option<GitSeen>,
    pub messages: Vec<MessageSeen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSeen {
    /// The task of the message; none for messages of people.
    pub key: Option<String>,
    /// It is the workspace's initial prompt.
    pub is_prompt: bool,
    pub accepted_at: DateTime<Utc>,
    pub state: TurnState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnState {
    Queued,
    Working,
    Ended(TurnEnd),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    Complete {
        text: String,
    },
    Question {
        text: String,
    },
    Failed {
        text: String,
    },
    /// By request.
    Interrupted,
    /// The workspace stopped, and the engine has no session to resume.
    Stopped,
    /// The workspace stopped, and the engine's session can be resumed.
    Parked,
    /// The runner disappeared during the turn.
    Crashed,
    /// Certainly no part of it ever ran.
    Unbegun,
    /// It is too old: the runner no longer knows how it ended.
    Forgotten,
    /// A keyword of a newer runner.
    Unknown {
        word: String,
    },
}

/// Any other AgentAPI: a status and texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentApiSeen {
    pub is_stable: bool,
    pub messages: Vec<MessageSeen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSeen {
    pub id: i64,
    pub role: Speaker,
    pub content: String,
    pub time: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    User,
    Agent,
}

/// The repository of the workspace as of the runner's last turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSeen {
    pub head: Option<String>,
    pub is_dirty: bool,
    pub n_unpushed: i64,
}

impl AppSeen {
    /// Whether there is certainly no agent to talk to.
    pub fn has_no_agent(&self) -> bool {
        match self {
            Self::Absent | Self::Foreign => true,
            Self::Unasked | Self::Silent { .. } | Self::Runner(_) | Self::AgentApi(_) => false,
        }
    }

    /// Whether it waits for input. None if that is unknown.
    pub fn is_stable(&self) -> Option<bool> {
        match self {
            Self::Unasked | Self::Absent | Self::Foreign | Self::Silent { .. } => None,
            Self::Runner(seen) => Some(seen.is_stable),
            Self::AgentApi(seen) => Some(seen.is_stable),
        }
    }

    pub fn messages(&self) -> &[MessageSeen] {
        match self {
            Self::Unasked | Self::Absent | Self::Foreign | Self::Silent { .. } => &[],
            Self::Runner(seen) => &seen.messages,
            Self::AgentApi(seen) => &seen.messages,
        }
    }
}

impl TurnSeen {
    /// The name by which the runner interrupts it; messages of people have no name.
    pub fn name(&self) -> Option<&str> {
        self.key.as_deref().or(self.is_prompt.then_some(PROMPT_KEY))
    }

    pub fn is_ended(&self) -> bool {
        match self.state {
            TurnState::Queued | TurnState::Working => false,
            TurnState::Ended(_) => true,
        }
    }
}
