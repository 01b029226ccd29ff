//! What an agent's app shows of its conversation, in the terms of our rules.

use chrono::{DateTime, Utc};

/// By this name our runner knows the message that its workspace started with, which has no task id.
pub const PROMPT_KEY: &str = "prompt";

/// One look at an agent's app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppSeen {
    /// Nobody looked, because the workspace is not up.
    Unasked,
    /// The workspace has no app that could speak AgentAPI.
    Absent,
    /// It has one, which answers and does not speak it.
    Foreign,
    /// It is there and does not answer.
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
    /// Older turns of which it no longer shows anything.
    pub n_forgotten: usize,
    pub git: Option<GitSeen>,
    pub messages: Vec<MessageSeen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSeen {
    /// The task it was given as; none for messages of people.
    pub key: Option<String>,
    /// It is what the workspace was started with.
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
    /// Somebody asked for it.
    Interrupted,
    /// The workspace stopped, and the engine has no session to go on in.
    Stopped,
    /// The workspace stopped, and the engine's session can go on.
    Parked,
    /// The runner vanished in the middle.
    Crashed,
    /// Certainly nothing of it ever ran.
    Unbegun,
    /// It was long ago, and the runner no longer knows how.
    Forgotten,
    /// A word of a newer runner.
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

/// The repository of the workspace as the runner saw it after its last turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSeen {
    pub head: Option<String>,
    pub is_dirty: bool,
    pub n_unpushed: i64,
}

impl AppSeen {
    /// Is it certain that there is nobody to talk to?
    pub fn has_no_agent(&self) -> bool {
        match self {
            Self::Absent | Self::Foreign => true,
            Self::Unasked | Self::Silent { .. } | Self::Runner(_) | Self::AgentApi(_) => false,
        }
    }

    /// Does it wait for input? None when it cannot be told.
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
    /// By which the runner interrupts it; messages of people have no name.
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
