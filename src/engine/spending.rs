//! Tokens by the price they have, added up over a conversation and taken apart into runs.
//!
//! The CLIs count over the whole conversation, also over earlier runs of it; a run's own share is what was added
//! since the count we kept of the last one. A run that is asked to end may still be counted by its CLI, one that
//! is killed is not: what we saw of it is kept apart until the next count shows which it was.

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

/// What a conversation has used: as its engine counts, and what runs that told no count were seen to use since.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Count {
    pub told: Spending,
    pub unsettled: Spending,
}

impl Count {
    /// A count that has everything.
    pub fn settled(told: Spending) -> Self {
        Self { told, unsettled: Spending::default() }
    }

    /// With what a run was seen to use so far.
    pub fn with(&self, seen: &Spending) -> Self {
        Self { told: self.told, unsettled: self.unsettled.plus(seen) }
    }

    /// A run's share of a new count, which settles all that came before. A count that lacks what this run was seen
    /// to use is not believed.
    pub fn share(&self, total: &Spending, seen: &Spending) -> Spending {
        let grown = total.since(&self.told);
        let tokens = |spending: &Spending| spending.usage().tokens();
        if tokens(&grown) >= tokens(&seen.plus(&self.unsettled)) {
            grown.since(&self.unsettled)
        } else if tokens(&grown) >= tokens(seen) {
            grown
        } else {
            *seen
        }
    }

    /// Is it as new as another one of the same conversation? Of a new count the unsettled rest may be less: what a
    /// killed run was seen to use may never be counted.
    pub(crate) fn is_as_new_as(&self, other: &Self) -> bool {
        let age = |count: &Self| (count.told.usage().tokens(), count.unsettled.usage().tokens());
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
    fn a_new_count_is_shared_among_the_run_and_those_that_told_none() {
        let total = spending(15, Some(3.0));
        let count = |unsettled| Count { told: spending(10, Some(2.0)), unsettled };
        let share = |unsettled, seen| count(unsettled).share(&total, &seen);
        // Nothing was open.
        assert_eq!(share(Spending::default(), spending(3, None)), spending(5, Some(1.0)));
        // An earlier run was asked to end, and the count has it.
        assert_eq!(share(spending(2, Some(0.25)), spending(3, None)), spending(3, Some(0.75)));
        // It was killed, and the count lacks it.
        assert_eq!(share(spending(2, Some(0.25)), spending(5, None)), spending(5, Some(1.0)));
        // The count lacks even this run.
        assert_eq!(share(Spending::default(), spending(6, None)), spending(6, None));
    }

    #[test]
    fn all_that_was_read_counts_as_input() {
        let usage = spending(7, Some(0.5)).usage();
        assert_eq!(usage, Usage { input_tokens: 21, output_tokens: 7, cost_usd: Some(0.5) });
    }
}
