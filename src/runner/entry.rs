//! The facts of a conversation, as recorded in the journal.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::app::PROMPT_KEY;
use crate::domain::question;
use crate::engine::{ConversationUsage, EngineEnd, FailureKind, Usage};

/// One fact. Turns are numbered from the very first one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(super) enum Entry {
    /// The summary of removed turns.
    Forgotten(Forgotten),
    /// The engine's session from here on.
    Session(Session),
    /// The commit of the repository before the first turn began.
    Base {
        commit: String,
    },
    Accepted {
        at: DateTime<Utc>,
        source: Source,
        task_id: Option<TaskKey>,
        content: String,
        /// It continues the engine's session.
        #[serde(default)]
        is_continued: bool,
    },
    /// This task was canceled before it arrived and is refused from now on.
    Withdrawn {
        at: DateTime<Utc>,
        task_id: TaskKey,
    },
    Started {
        at: DateTime<Utc>,
        turn: usize,
        run: Uuid,
        generation: u64,
    },
    /// The usage of a run so far, in case its end is never recorded.
    Spent {
        turn: usize,
        usage: Usage,
        session: ConversationUsage,
    },
    Ended {
        at: DateTime<Utc>,
        turn: usize,
        outcome: Outcome,
        text: String,
        usage: Usage,
        #[serde(default)]
        session: ConversationUsage,
        /// An engine ran and reported no usage.
        #[serde(default)]
        is_unknown: bool,
    },
}

/// Data kept of removed turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Forgotten {
    pub(super) n_turns: usize,
    pub(super) has_prompt: bool,
    pub(super) usage: Usage,
    #[serde(default)]
    pub(super) unknown_runs: u64,
    /// Their tasks, newest last: a repeated delivery of one of them changes nothing.
    pub(super) tasks: Vec<TaskKey>,
}

/// Identifies the conversation for later runs of the same engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) engine: String,
    pub(super) id: String,
    /// The engine's own count for the session.
    pub(super) spent: ConversationUsage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// The workspace's initial prompt.
    Prompt,
    User,
}

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum Outcome {
    Complete { text: String },
    Question { text: String },
    Failed { kind: FailureKind, text: String },
    Interrupted { by: Interruption },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Interruption {
    /// By request.
    Request,
    /// The runner was stopped, and the engine has no session to resume.
    Stop,
    /// The runner was stopped, and the engine's session can be resumed.
    Park,
    /// The runner was stopped before the engine had the message.
    Unbegun,
    /// The runner disappeared while the run was in progress.
    Crash,
}

/// The idempotency key of a task: a repeated delivery changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct TaskKey(String);

impl TaskKey {
    pub(super) const MAX: usize = 200;

    pub(super) fn parse(text: String) -> Option<Self> {
        (1..=Self::MAX).contains(&text.len()).then_some(Self(text))
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether it names the initial prompt.
    pub(super) fn is_prompt(&self) -> bool {
        self.0 == PROMPT_KEY
    }
}

impl From<EngineEnd> for Outcome {
    fn from(end: EngineEnd) -> Self {
        match end {
            EngineEnd::Complete { text } if question::is_asked(&text) => Self::Question { text },
            EngineEnd::Complete { text } => Self::Complete { text },
            EngineEnd::Question { text } => Self::Question { text },
            EngineEnd::Failed { kind, text } => Self::Failed { kind, text },
            EngineEnd::SessionLost => Self::Failed {
                kind: FailureKind::EngineError,
                text: "the engine has no record of a conversation it has just started".to_owned(),
            },
        }
    }
}

impl Interruption {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Request => "Interrupted on request.",
            Self::Stop => "Interrupted: the workspace is stopping.",
            Self::Park => "Interrupted: the workspace is stopping; the next start resumes the task.",
            Self::Unbegun => "Not started: the workspace is stopping.",
            Self::Crash => "Interrupted: the runner ended during this run; it is not run again.",
        }
    }
}
