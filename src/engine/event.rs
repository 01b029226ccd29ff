//! Events and outcomes of engine runs, in the same terms for all engines.

use std::ops::AddAssign;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

use super::spending::ConversationUsage;

/// An event of a running engine.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineEvent {
    /// Text for the user, in the order printed.
    Text(String),
    /// The id of the conversation, with which a later run continues it.
    Session(String),
    /// Usage so far; replaces the event before.
    Usage(RunUsage),
}

/// Usage of a run, and of its conversation including that run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RunUsage {
    pub run: Usage,
    pub session: ConversationUsage,
}

/// How the engine's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub status: ExitStatus,
    /// The end of standard error.
    pub stderr: String,
}

/// The outcome of a run, as the engine reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEnd {
    Complete {
        text: String,
    },
    /// It needs an answer to continue.
    Question {
        text: String,
    },
    Failed {
        kind: FailureKind,
        text: String,
    },
    /// The conversation to continue is unknown to it, and it did nothing.
    SessionLost,
}

/// The kind of a failure, for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    EngineMissing,
    Auth,
    UsageLimit,
    Budget,
    /// The process ended without reporting an outcome.
    Crashed,
    BadOutput,
    EngineError,
}

/// Tokens and cost. An unknown cost is absent, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// All tokens read, including cached tokens.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
}

impl Usage {
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// The usage of all turns, as an agent's runner publishes it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct UsageRecord {
    #[serde(flatten)]
    pub usage: Usage,
    /// Turns that reported no usage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_runs: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cost_usd = match (self.cost_usd, more.cost_usd) {
            (Some(cost), Some(added)) => Some(cost + added),
            (known, None) | (None, known) => known,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up_and_an_unknown_cost_adds_nothing() {
        let usage = |tokens, cost_usd| Usage { input_tokens: tokens, output_tokens: tokens, cost_usd };
        let mut total = Usage::default();
        total += usage(1, None);
        assert_eq!(total, usage(1, None));
        total += usage(2, Some(0.5));
        total += usage(3, None);
        total += usage(u64::MAX, Some(0.25));
        assert_eq!(total, usage(u64::MAX, Some(0.75)));
    }
}
