//! The lines of Codex's output and of its session log, as far as the reader needs them.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use crate::engine::Spending;

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum CodexLine {
    #[serde(rename = "thread.started")]
    ThreadStarted { thread_id: String },
    #[serde(rename = "item.started")]
    ItemStarted { item: Item },
    #[serde(rename = "item.completed")]
    ItemCompleted { item: Item },
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        #[serde(default)]
        usage: Tokens,
    },
    #[serde(rename = "turn.failed")]
    TurnFailed { error: Failure },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item {
    AgentMessage {
        text: String,
    },
    CommandExecution {
        #[serde(default)]
        command: String,
    },
    FileChange {
        #[serde(default)]
        changes: Vec<Change>,
    },
    McpToolCall {
        #[serde(default)]
        server: String,
        #[serde(default)]
        tool: String,
        error: Option<Failure>,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(default)]
    pub(super) path: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Failure {
    #[serde(default)]
    pub(super) message: String,
}

/// Codex counts cached tokens as part of the input.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Tokens {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    cache_write_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

/// A line of the session log: the model in use, or a count.
#[derive(Debug, Deserialize)]
pub(super) struct Recorded {
    #[serde(rename = "type")]
    kind: String,
    pub(super) timestamp: DateTime<Utc>,
    #[serde(default)]
    payload: Value,
}

impl Tokens {
    pub(super) fn spending(&self) -> Spending {
        let kept = self.cached_input_tokens.saturating_add(self.cache_write_input_tokens);
        Spending {
            input: self.input_tokens.saturating_sub(kept),
            cache_write: self.cache_write_input_tokens,
            cache_read: self.cached_input_tokens,
            output: self.output_tokens,
            cost_usd: None,
        }
    }
}

impl Recorded {
    pub(super) fn model(&self) -> Option<&str> {
        (self.kind == "turn_context").then(|| self.payload.get("model")?.as_str())?
    }

    /// Usage of this run, written after each answer of the model and before its tool calls.
    pub(super) fn run(&self) -> Option<Tokens> {
        let text = (self.kind == "token_usage_record").then(|| self.payload.get("turn_token_usage"))??;
        serde_json::from_value(text.clone()).ok()
    }

    /// Usage of the whole conversation, written after the tool calls.
    pub(super) fn total(&self) -> Option<Tokens> {
        if self.payload.get("type")? != "token_count" {
            return None;
        }
        let total = self.payload.get("info")?.get("total_token_usage")?;
        serde_json::from_value(total.clone()).ok()
    }
}
