//! The remaining budget of an agent's runs, before a run starts and while it continues.

use crate::app::Fleet;
use crate::app::snapshot::AgentState;
use crate::domain::budget::Usd;
use crate::domain::run::Run;
use crate::domain::usage::{Figures, Spender};
use crate::engine::Usage;
use crate::engine::budget::{Budget, BudgetError};

impl Fleet {
    /// Describes an exceeded budget; none within the budget.
    pub(in crate::app) fn budget_excess(&self, state: &AgentState) -> Option<String> {
        let Budget { max_cost_usd, max_tokens } = self.budget_of(state);
        let used = used_by(state, Spender::Agent);
        let (name, cost) = (&state.agent.name, used.cost_usd.unwrap_or_default());
        let too_dear = max_cost_usd.filter(|max| cost > *max);
        let too_many = max_tokens.filter(|max| used.tokens() > *max);
        let dear = too_dear.map(|max| format!("agent '{name}' has spent ${cost:.4} of ${max:.4}"));
        dear.or_else(|| {
            too_many.map(|max| format!("agent '{name}' has used {} of {max} tokens", used.tokens()))
        })
    }

    /// The budget left for the spender's next run; an error if none is left.
    pub(super) fn budget_left(&self, state: &AgentState, spender: Spender) -> Result<Budget, BudgetError> {
        let (whole, used) = (self.budget_of(state), used_by(state, spender));
        whole.check(&used)?;
        Ok(whole.remaining_after(&used))
    }

    /// Whether a running run has used up its budget. Its usage so far is counted before this check.
    pub(super) fn is_over_budget(&self, run: &Run, spender: Spender, seen: &Usage) -> bool {
        let snapshot = self.board().now();
        snapshot.by_id(run.agent_id).is_some_and(|state| {
            let whole = self.budget_of(state);
            whole.check(seen).is_err() || whole.check(&used_by(state, spender)).is_err()
        })
    }

    fn budget_of(&self, state: &AgentState) -> Budget {
        let role = self.role_for(state).map(|role| role.budget).unwrap_or_default();
        let whole = self.options().budget.narrowed_by(role);
        Budget { max_cost_usd: whole.max_cost.map(Usd::dollars), max_tokens: whole.max_tokens }
    }
}

/// The usage that counts against a run's budget. Tasks share the agent's budget; squad members get what the agent and
/// other members left of it. In a workspace for runs, which belongs to no agent, each member has a whole budget.
fn used_by(state: &AgentState, spender: Spender) -> Usage {
    let used = match spender {
        Spender::Agent => state.usage.own,
        Spender::Member if state.agent.name.is_of_runs() => Figures::default(),
        Spender::Member => state.usage.all,
    };
    Usage { input_tokens: used.input_tokens, output_tokens: used.output_tokens, cost_usd: used.cost_usd() }
}
