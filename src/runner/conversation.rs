//! The conversation: turns in the order they were accepted, each run once, rebuilt from the journal.
//!
//! Every turn is two messages, the user's (number 2n) and the agent's answer to it (2n + 1), so that numbers tell
//! the order of the conversation even while later turns already wait.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::output::Transcript;
use crate::domain::id::RunId;
use crate::engine::{End, FailureKind, Usage};

/// One fact, as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub(super) enum Entry {
    Accepted { at: DateTime<Utc>, source: Source, task_id: Option<TaskKey>, content: String },
    Started { at: DateTime<Utc>, turn: usize, run: Uuid, generation: u64 },
    Ended { at: DateTime<Utc>, turn: usize, outcome: Outcome, text: String, usage: Usage },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    /// The workspace's own first message.
    Prompt,
    User,
}

/// How a turn ended.
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
    /// Somebody asked for it.
    Request,
    /// The runner was stopped.
    Stop,
    /// The runner vanished while the run was under way.
    Crash,
}

/// Whoever gives a task names it, so that giving it again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct TaskKey(String);

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) source: Source,
    pub(super) task_id: Option<TaskKey>,
    pub(super) content: String,
    pub(super) accepted_at: DateTime<Utc>,
    pub(super) progress: Progress,
}

#[derive(Debug)]
pub(super) enum Progress {
    Queued,
    Working { run: RunId, generation: u64, since: DateTime<Utc>, text: Transcript },
    Ended { since: DateTime<Utc>, at: DateTime<Utc>, outcome: Outcome, text: String, usage: Usage },
}

#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) turns: Vec<Turn>,
}

impl TaskKey {
    pub(super) const MAX: usize = 200;

    pub(super) fn parse(text: String) -> Option<Self> {
        (1..=Self::MAX).contains(&text.len()).then_some(Self(text))
    }
}

impl Conversation {
    pub(super) fn replay(entries: Vec<Entry>) -> Self {
        let mut conversation = Self::default();
        entries.into_iter().for_each(|entry| conversation.apply(entry));
        conversation
    }

    /// Takes in a fact that is already in the journal. One about a turn that is not there says nothing.
    pub(super) fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Accepted { at, source, task_id, content } => {
                let progress = Progress::Queued;
                self.turns.push(Turn { source, task_id, content, accepted_at: at, progress });
            }
            Entry::Started { at, turn, run, generation } => {
                let text = Transcript::default();
                self.progress(turn, Progress::Working { run: RunId(run), generation, since: at, text });
            }
            Entry::Ended { at, turn, outcome, text, usage } => {
                let since = self.turns.get(turn).map_or(at, |turn| turn.since());
                self.progress(turn, Progress::Ended { since, at, outcome, text, usage });
            }
        }
    }

    /// Adds to what the agent is saying in the turn under way.
    pub(super) fn hear(&mut self, turn: usize, said: &str) {
        if let Some(Turn { progress: Progress::Working { text, .. }, .. }) = self.turns.get_mut(turn) {
            text.push(said);
        }
    }

    /// Everything accepted has ended.
    pub(super) fn is_stable(&self) -> bool {
        self.turns.iter().all(Turn::is_ended)
    }

    pub(super) fn has_task(&self, task_id: &TaskKey) -> bool {
        self.turns.iter().any(|turn| turn.task_id.as_ref() == Some(task_id))
    }

    pub(super) fn has_prompt(&self) -> bool {
        self.turns.iter().any(|turn| turn.source == Source::Prompt)
    }

    pub(super) fn next_queued(&self) -> Option<usize> {
        self.turns.iter().position(|turn| matches!(turn.progress, Progress::Queued))
    }

    pub(super) fn usage(&self) -> Usage {
        let mut total = Usage::default();
        for turn in &self.turns {
            if let Progress::Ended { usage, .. } = &turn.progress {
                total += *usage;
            }
        }
        total
    }

    fn progress(&mut self, turn: usize, progress: Progress) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.progress = progress;
        }
    }
}

impl Turn {
    /// When the agent began to answer; before that, when it was asked.
    pub(super) fn since(&self) -> DateTime<Utc> {
        match self.progress {
            Progress::Queued => self.accepted_at,
            Progress::Working { since, .. } | Progress::Ended { since, .. } => since,
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.progress, Progress::Ended { .. })
    }
}

impl From<End> for Outcome {
    fn from(end: End) -> Self {
        match end {
            End::Complete { text } => Self::Complete { text },
            End::Question { text } => Self::Question { text },
            End::Failed { kind, text } => Self::Failed { kind, text },
        }
    }
}

impl Interruption {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Request => "Interrupted as asked.",
            Self::Stop => "Interrupted: the workspace is stopping.",
            Self::Crash => "Interrupted: the runner ended in the middle of this run; it is not run again.",
        }
    }
}
