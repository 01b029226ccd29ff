//! The log of an agent: its conversation, message by message, kept for when the agent is unreachable.

use std::fmt;

use chrono::{DateTime, Utc};

use super::app::{MessageSeen, Speaker};
use super::text::cut;
use super::word_enum::word_enum;

/// Longer messages are truncated to this length.
pub const MAX_CHARS: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The conversation: 0 if it survives restarts, else the generation it began with. A lost and restarted
    /// conversation is kept under a negative number.
    pub conversation: i64,
    /// Its position in the conversation.
    pub number: i64,
    pub kind: LogKind,
    pub content: String,
    pub time: DateTime<Utc>,
}

word_enum! {
    LogKind {
        /// A message to the agent.
        Input = "input",
        /// The agent's answer.
        Output = "output",
    }
}

impl LogEntry {
    pub fn of(message: &MessageSeen, conversation: i64) -> Self {
        let kind = match message.role {
            Speaker::User => LogKind::Input,
            Speaker::Agent => LogKind::Output,
        };
        let content = cut(&message.content, MAX_CHARS);
        Self { conversation, number: message.id, kind, content, time: message.time }
    }
}
