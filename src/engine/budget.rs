//! An agent's budget, and the part that is left.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Usage;
use crate::domain::budget::RAISE_BUDGET;

/// An unset bound is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Budget {
    pub(crate) max_cost_usd: Option<f64>,
    pub(crate) max_tokens: Option<u64>,
}

/// The outcome of a run that exceeded its budget.
pub(crate) fn stopped() -> String {
    format!("stopped: the budget is used up; {RAISE_BUDGET}")
}

/// Why no further run starts.
#[derive(Debug, Error)]
pub(crate) enum BudgetError {
    #[error("the budget is used up ({0}); {RAISE_BUDGET}")]
    UsedUp(String),
    #[error("this agent's budget cannot be read ({0}); restart the agent to write it again")]
    Unreadable(String),
}

impl Budget {
    /// Refuses if `used` reaches a bound.
    pub(crate) fn check(&self, used: &Usage) -> Result<(), BudgetError> {
        let cost = used.cost_usd.unwrap_or_default();
        match (self.max_cost_usd, self.max_tokens) {
            (Some(max), _) if cost >= max => {
                Err(BudgetError::UsedUp(format!("${cost:.4} of ${max:.4} spent")))
            }
            (_, Some(max)) if used.tokens() >= max => {
                Err(BudgetError::UsedUp(format!("{} of {max} tokens used", used.tokens())))
            }
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    /// The budget left after `used`.
    pub(crate) fn remaining_after(&self, used: &Usage) -> Self {
        let cost = used.cost_usd.unwrap_or_default();
        Self {
            max_cost_usd: self.max_cost_usd.map(|max| (max - cost).max(0.0)),
            max_tokens: self.max_tokens.map(|max| max.saturating_sub(used.tokens())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(tokens: u64, cost_usd: Option<f64>) -> Usage {
        Usage { input_tokens: tokens, output_tokens: 0, cost_usd }
    }

    #[test]
    fn either_bound_ends_it_and_what_is_not_bound_does_not() {
        let budget = Budget { max_cost_usd: Some(1.0), max_tokens: Some(100) };
        let checked = |used: Usage| budget.check(&used).map_err(|error| error.to_string());
        assert_eq!(checked(used(99, Some(0.5))), Ok(()));
        assert_eq!(checked(used(99, None)), Ok(()));
        let used_up = |used: &str| Err(format!("the budget is used up ({used}); {RAISE_BUDGET}"));
        assert_eq!(checked(used(0, Some(1.0))), used_up("$1.0000 of $1.0000 spent"));
        assert_eq!(checked(used(100, None)), used_up("100 of 100 tokens used"));
        assert!(Budget::default().check(&used(u64::MAX, Some(1e9))).is_ok());
        let left = Budget { max_cost_usd: Some(0.75), max_tokens: Some(0) };
        assert_eq!(budget.remaining_after(&used(200, Some(0.25))), left);
    }
}
