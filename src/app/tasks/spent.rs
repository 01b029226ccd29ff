//! What the runs of tasks have used, added up for each agent: where there is no runner, nobody else counts.

use chrono::Utc;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::budget::Usd;
use crate::domain::id::RunId;
use crate::domain::metadata::{Dated, MetadataKey, USAGE};
use crate::domain::run::Run;
use crate::engine::Usage;
use crate::engine::budget::{Budget, BudgetError};

/// What is kept of an agent, in the words that a runner uses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Account {
    #[serde(flatten)]
    usage: Usage,
    /// The run that was counted last. An agent's runs end one after another, so none is counted twice.
    run: Option<uuid::Uuid>,
}

impl Account {
    fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// With what a run has used; none if that changes nothing.
    fn with(mut self, run: RunId, usage: Usage) -> Option<Self> {
        if usage == Usage::default() || self.run == Some(run.0) {
            return None;
        }
        self.usage += usage;
        Some(Self { run: Some(run.0), ..self })
    }
}

impl Fleet {
    /// Adds what a run has used; counted again it stays the same.
    pub(super) async fn usage_add(&self, run: &Run, usage: Usage) -> Result<(), Error> {
        let known = self.store().metadata_of(run.agent_id).await?;
        let account = Account::read(known.get(USAGE).map(|dated| dated.value.as_str()));
        let (Some(account), Ok(key)) = (account.with(run.id, usage), MetadataKey::parse(USAGE)) else {
            return Ok(());
        };
        let dated = Dated { value: json!(account).to_string(), changed_at: Utc::now() };
        self.store().metadata_set(run.agent_id, &key, &dated).await?;
        self.board_refresh(run.agent_id).await?;
        Ok(())
    }

    /// In words how much more than its budget an agent has spent; none if it is within.
    pub(in crate::app) fn spent_too_much(&self, state: &AgentState) -> Option<String> {
        let Budget { max_cost_usd, max_tokens } = self.budget_of(state);
        let used = Account::read(state.metadata.get(USAGE).map(|dated| dated.value.as_str())).usage;
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
        let whole = self.budget_of(state);
        let used = Account::read(state.own_metadata.get(USAGE).map(|dated| dated.value.as_str())).usage;
        whole.check(&used)?;
        Ok(whole.less(&used))
    }

    fn budget_of(&self, state: &AgentState) -> Budget {
        let role = self.role_for(state).map(|role| role.budget).unwrap_or_default();
        let whole = self.options().budget.narrowed_by(role);
        Budget { max_cost_usd: whole.max_cost.map(Usd::dollars), max_tokens: whole.max_tokens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_counted_once_and_the_account_is_read_as_it_was_written() {
        let used = |tokens, cost_usd| Usage { input_tokens: tokens, output_tokens: 1, cost_usd };
        let (first, second) = (RunId::fresh(), RunId::fresh());
        let account = Account::default().with(first, used(5, Some(0.25))).unwrap();
        let kept = json!(account).to_string();
        let again = Account::read(Some(&kept));
        assert_eq!((&again, again.clone().with(first, used(5, Some(0.25)))), (&account, None));
        assert_eq!(again.clone().with(second, Usage::default()), None);
        let whole = again.with(second, used(2, None)).unwrap().usage;
        assert_eq!(whole, Usage { input_tokens: 7, output_tokens: 2, cost_usd: Some(0.25) });
        // What a runner wrote is read too.
        let runners = r#"{"input_tokens":3,"output_tokens":1,"cost_usd":null}"#;
        assert_eq!(Account::read(Some(runners)), Account { usage: used(3, None), run: None });
    }
}
