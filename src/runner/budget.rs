//! Reads the total budget of the agent.

use std::io;
use std::path::Path;

use crate::engine::Usage;
use crate::engine::budget::{Budget, BudgetError};
use crate::files::regular;

const FILE: &str = "budget.json";

/// The current budget, which may be raised at any time. An unreadable file is never taken for an unlimited budget.
pub(super) fn read(directory: &Path) -> Result<Budget, BudgetError> {
    let text = match regular::text(&directory.join(FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Budget::default()),
        Err(error) => return Err(BudgetError::Unreadable(error.to_string())),
    };
    serde_json::from_str(&text).map_err(|error| BudgetError::Unreadable(error.to_string()))
}

/// What is left of it; an error if that is nothing.
pub(super) fn left(directory: &Path, used: &Usage) -> Result<Budget, BudgetError> {
    let budget = read(directory)?;
    budget.check(used)?;
    Ok(budget.remaining_after(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_cannot_be_read_is_not_taken_for_none() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), Budget::default());
        let write = |text: &str| std::fs::write(directory.path().join(FILE), text).unwrap();
        write(r#"{"max_cost_usd":null,"max_tokens":5,"more":1}"#);
        let known = read(directory.path()).unwrap();
        assert_eq!(known, Budget { max_cost_usd: None, max_tokens: Some(5) });
        write("{");
        assert!(matches!(read(directory.path()), Err(BudgetError::Unreadable(_))));
    }
}
