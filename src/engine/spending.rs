//! Usage by price class, summed over a conversation and split into runs.
//!
//! The CLIs count over the whole conversation, including earlier runs; a run's share is the increase since the last
//! known count. A CLI may still count an interrupted run, but never counts a killed run: its observed usage is kept
//! separately until the next count shows whether it is included.

use serde::{Deserialize, Serialize};

use super::event::Usage;

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spending {
    /// Input tokens without caching.
    pub input: u64,
    pub cache_write: u64,
    pub cache_read: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
}

/// Usage of a conversation: the engine's count, and the observed usage of runs without a count since then.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ConversationUsage {
    #[serde(rename = "told")]
    pub reported: Spending,
    pub unsettled: Spending,
}

impl ConversationUsage {
    /// A count that includes all runs.
    pub fn settled(reported: Spending) -> Self {
        Self { reported, unsettled: Spending::default() }
    }

    /// Adds the observed usage of the current run.
    pub fn with(&self, seen: &Spending) -> Self {
        Self { reported: self.reported, unsettled: self.unsettled.plus(seen) }
    }

    /// A run's share of a new count, which settles all usage before it. A count smaller than the observed usage of
    /// this run is ignored.
    pub fn share(&self, total: &Spending, seen: &Spending) -> Spending {
        let grown = total.since(&self.reported);
        let tokens = |spending: &Spending| spending.usage().tokens();
        if tokens(&grown) >= tokens(&seen.plus(&self.unsettled)) {
            grown.since(&self.unsettled)
        } else if tokens(&grown) >= tokens(seen) {
            grown
        } else {
            *seen
        }
    }

    /// Whether this count is at least as new as another count of the same conversation. In a newer count the unsettled
    /// usage may be smaller, because the engine may never count a killed run.
    pub(crate) fn is_as_new_as(&self, other: &Self) -> bool {
        let age = |count: &Self| (count.reported.usage().tokens(), count.unsettled.usage().tokens());
        age(self) >= age(other)
    }
}

impl Spending {
    pub fn usage(&self) -> Usage {
        let input_tokens = self.input.saturating_add(self.cache_write).saturating_add(self.cache_read);
        Usage { input_tokens, output_tokens: self.output, cost_usd: self.cost_usd }
    }

    pub fn plus(&self, more: &Self) -> Self {
        let cost_usd = match (self.cost_usd, more.cost_usd) {
            (Some(cost), Some(added)) => Some(round(cost + added)),
            (known, None) | (None, known) => known,
        };
        Self {
            input: self.input.saturating_add(more.input),
            cache_write: self.cache_write.saturating_add(more.cache_write),
            cache_read: self.cache_read.saturating_add(more.cache_read),
            output: self.output.saturating_add(more.output),
            cost_usd,
        }
    }

    /// The increase since an earlier count, at least zero.
    pub fn since(&self, before: &Self) -> Self {
        let cost_usd = self.cost_usd.map(|cost| round((cost - before.cost_usd.unwrap_or_default()).max(0.0)));
        Self {
            input: self.input.saturating_sub(before.input),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
            cache_read: self.cache_read.saturating_sub(before.cache_read),
            output: self.output.saturating_sub(before.output),
            cost_usd,
        }
    }
}

/// Rounded to a millionth of a dollar, so that equal figures have equal sums and differences.
fn round(cost: f64) -> f64 {
    (cost * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spending(tokens: u64, cost_usd: Option<f64>) -> Spending {
        Spending { input: tokens, cache_write: tokens, cache_read: tokens, output: tokens, cost_usd }
    }

    #[test]
    fn a_runs_share_is_what_was_added_and_never_negative() {
        let (before, after) = (spending(10, Some(0.0118)), spending(15, Some(0.0177)));
        assert_eq!(after.since(&before), spending(5, Some(0.0059)));
        assert_eq!(before.plus(&after.since(&before)), after);
        assert_eq!(before.since(&after), spending(0, Some(0.0)));
        assert_eq!(spending(1, None).since(&before), spending(0, None));
    }

    #[test]
    fn a_new_count_is_split_between_the_run_and_earlier_runs_without_a_count() {
        let total = spending(15, Some(3.0));
        let count = |unsettled| ConversationUsage { reported: spending(10, Some(2.0)), unsettled };
        let share = |unsettled, seen| count(unsettled).share(&total, &seen);
        // No unsettled usage.
        assert_eq!(share(Spending::default(), spending(3, None)), spending(5, Some(1.0)));
        // The count includes an interrupted run.
        assert_eq!(share(spending(2, Some(0.25)), spending(3, None)), spending(3, Some(0.75)));
        // The count lacks a killed run.
        assert_eq!(share(spending(2, Some(0.25)), spending(5, None)), spending(5, Some(1.0)));
        // The count lacks this run.
        assert_eq!(share(Spending::default(), spending(6, None)), spending(6, None));
    }

    #[test]
    fn all_that_was_read_counts_as_input() {
        let usage = spending(7, Some(0.5)).usage();
        assert_eq!(usage, Usage { input_tokens: 21, output_tokens: 7, cost_usd: Some(0.5) });
    }
}
