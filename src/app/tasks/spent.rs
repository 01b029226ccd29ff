//! What is left of an agent's budget after what was counted of it.

use crate::app::Fleet;
use crate::app::snapshot::AgentState;
use crate::domain::budget::Usd;
use crate::engine::Usage;
use crate::engine::budget::{Budget, BudgetError};

impl Fleet {
    /// In words how much more than its budget an agent has spent; none if it is within.
    pub(in crate::app) fn spent_too_much(&self, state: &AgentState) -> Option<String> {
        let Budget { max_cost_usd, max_tokens } = self.budget_of(state);
        let used = used_by(state);
        let (name, cost) = (&state.agent.name, used.cost_usd.unwrap_or_default());
        let too_dear = max_cost_usd.filter(|max| cost > *max);
        let too_many = max_tokens.filter(|max| used.tokens() > *max);
        let dear = too_dear.map(|max| format!("agent '{name}' has spent ${cost:.4} of ${max:.4}"));
        dear.or_else(|| {
            too_many.map(|max| format!("agent '{name}' has used {} of {max} tokens", used.tokens()))
        })
    }

    /// What is left for an agent's next run; refused when that is nothing.
    pub(super) fn budget_left(&self, state: &AgentState) -> Result<Budget, BudgetError> {
        let (whole, used) = (self.budget_of(state), used_by(state));
        whole.check(&used)?;
        Ok(whole.less(&used))
    }

    fn budget_of(&self, state: &AgentState) -> Budget {
        let role = self.role_for(state).map(|role| role.budget).unwrap_or_default();
        let whole = self.options().budget.narrowed_by(role);
        Budget { max_cost_usd: whole.max_cost.map(Usd::dollars), max_tokens: whole.max_tokens }
    }
}

/// Members of squads work within the limits of their squad, not within the budget of the agent they run in.
fn used_by(state: &AgentState) -> Usage {
    let own = &state.usage.own;
    Usage { input_tokens: own.input_tokens, output_tokens: own.output_tokens, cost_usd: own.cost_usd() }
}
