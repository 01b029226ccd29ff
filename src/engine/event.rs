//! What engines tell, in the same terms for all of them.

use std::ops::AddAssign;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

use super::spending::Count;

/// Something an engine said while it ran.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Text for people, in the order it was said.
    Text(String),
    /// The conversation the engine keeps, by which a later run goes on with it.
    Session(String),
    /// What was used so far; a later one replaces it.
    Spent(Spent),
}

/// What a run has used, and what its whole conversation has by that.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    pub run: Usage,
    pub session: Count,
}

/// How the engine's process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub status: ExitStatus,
    /// The end of what it wrote to standard error.
    pub stderr: String,
}

/// The outcome of a run, as the engine tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Complete {
        text: String,
    },
    /// It cannot go on without an answer.
    Question {
        text: String,
    },
    Failed {
        kind: FailureKind,
        text: String,
    },
    /// It does not know the conversation it was told to go on with, and did nothing.
    SessionLost,
}

/// Why a run failed, for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    EngineMissing,
    Auth,
    UsageLimit,
    Budget,
    /// The process ended without telling an outcome.
    Crashed,
    BadOutput,
    EngineError,
}

/// Tokens and money. A cost nobody knows is none, never zero.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// All tokens read, also those that came out of a cache.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_usd: Option<f64>,
}

impl Usage {
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// What an agent's runner publishes of all its turns.
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
