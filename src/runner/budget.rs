//! What the agent may use in all, as it was told, and what is left of it.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::engine::Usage;

const FILE: &str = "budget.json";

/// A bound that is not set does not count.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Budget {
    pub(super) max_cost_usd: Option<f64>,
    pub(super) max_tokens: Option<u64>,
}

/// Why nothing more is run.
#[derive(Debug, Error)]
pub(super) enum BudgetError {
    #[error("this agent's budget is used up ({0}); raise it to go on")]
    UsedUp(String),
    #[error("this agent's budget cannot be read ({0}); start the agent again to have it written anew")]
    Unreadable(String),
}

impl Budget {
    /// The budget as it is now: it may be raised at any time. One that cannot be read is never taken for none.
    pub(super) fn read(directory: &Path) -> Result<Self, BudgetError> {
        let text = match std::fs::read_to_string(directory.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(BudgetError::Unreadable(error.to_string())),
        };
        serde_json::from_str(&text).map_err(|error| BudgetError::Unreadable(error.to_string()))
    }

    /// Refuses when so much is used up.
    pub(super) fn check(&self, used: &Usage) -> Result<(), BudgetError> {
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

    /// What is left after so much.
    pub(super) fn less(&self, used: &Usage) -> Self {
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
        let said = |used: Usage| budget.check(&used).map_err(|error| error.to_string());
        assert_eq!(said(used(99, Some(0.5))), Ok(()));
        assert_eq!(said(used(99, None)), Ok(()));
        let spent = "this agent's budget is used up ($1.0000 of $1.0000 spent); raise it to go on";
        assert_eq!(said(used(0, Some(1.0))), Err(spent.to_owned()));
        let tokens = "this agent's budget is used up (100 of 100 tokens used); raise it to go on";
        assert_eq!(said(used(100, None)), Err(tokens.to_owned()));
        assert!(Budget::default().check(&used(u64::MAX, Some(1e9))).is_ok());
        let left = Budget { max_cost_usd: Some(0.75), max_tokens: Some(0) };
        assert_eq!(budget.less(&used(200, Some(0.25))), left);
    }

    #[test]
    fn a_budget_that_cannot_be_read_is_not_taken_for_none() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Budget::read(directory.path()).unwrap(), Budget::default());
        let write = |text: &str| std::fs::write(directory.path().join(FILE), text).unwrap();
        write(r#"{"max_cost_usd":null,"max_tokens":5,"more":1}"#);
        let read = Budget::read(directory.path()).unwrap();
        assert_eq!(read, Budget { max_cost_usd: None, max_tokens: Some(5) });
        write("{");
        assert!(matches!(Budget::read(directory.path()), Err(BudgetError::Unreadable(_))));
    }
}
