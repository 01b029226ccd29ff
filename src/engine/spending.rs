//! Tokens by the price they have, added up over a conversation and taken apart into runs.
//!
//! The CLIs count over the whole conversation, also over earlier runs of it; a run's own share is what was added
//! since the count we kept of the last one.

use serde::{Deserialize, Serialize};

use super::event::Usage;

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spending {
    /// Read for the first time, and not kept for later.
    pub input: u64,
    pub cache_write: u64,
    pub cache_read: u64,
    pub output: u64,
    pub cost_usd: Option<f64>,
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

    /// A run's share of this count of a whole conversation: what it has grown by since before the run. A count that
    /// lacks what was seen being used is not believed.
    pub fn share(&self, before: &Self, seen: &Self) -> Self {
        let grown = self.since(before);
        if grown.usage().tokens() >= seen.usage().tokens() { grown } else { *seen }
    }

    /// What was added since an earlier count; a count that went backwards added nothing.
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

/// To a millionth of a dollar, so that sums and differences of the same figures are the same.
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
    fn a_count_that_lacks_what_was_seen_is_not_believed() {
        let (total, before) = (spending(15, Some(3.0)), spending(10, Some(2.0)));
        assert_eq!(total.share(&before, &spending(3, None)), spending(5, Some(1.0)));
        assert_eq!(total.share(&before, &spending(6, None)), spending(6, None));
    }

    #[test]
    fn all_that_was_read_counts_as_input() {
        let usage = spending(7, Some(0.5)).usage();
        assert_eq!(usage, Usage { input_tokens: 21, output_tokens: 7, cost_usd: Some(0.5) });
    }
}
