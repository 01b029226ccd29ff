//! What the runs of tasks have used, added up for each agent: where there is no runner, nobody else counts.

use chrono::Utc;
use serde::{Deserialize, Serialize};

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::budget::Usd;
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

    fn with(mut self, run: &Run, usage: Usage) -> Self {
        self.usage += usage;
        Self { run: Some(run.id.0), ..self }
    }
}

impl Fleet {
    /// Adds what a run has used; counted again it stays the same.
    pub(super) async fn usage_add(&self, run: &Run, usage: Usage) -> Result<(), Error> {
        let known = self.store().metadata_of(run.agent_id).await?;
        let account = Account::read(known.get(USAGE).map(|dated| dated.value.as_str()));
        let Ok(key) = MetadataKey::parse(USAGE) else { return Ok(()) };
        if usage == Usage::default() || account.run == Some(run.id.0) {
            return Ok(());
        }
        let value = serde_json::to_string(&account.with(run, usage)).unwrap_or_default();
        let dated = Dated { value, changed_at: Utc::now() };
        self.store().metadata_set(run.agent_id, &key, &dated).await?;
        self.board_refresh(run.agent_id).await?;
        Ok(())
    }

    /// What is left for an agent's next run; refused when that is nothing.
    pub(super) fn budget_left(&self, state: &AgentState) -> Result<Budget, BudgetError> {
        let role = self.role_for(state).map(|role| role.budget).unwrap_or_default();
        let whole = self.options().budget.narrowed_by(role);
        let whole = Budget { max_cost_usd: whole.max_cost.map(Usd::dollars), max_tokens: whole.max_tokens };
        let used = Account::read(state.own_metadata.get(USAGE).map(|dated| dated.value.as_str())).usage;
        whole.check(&used)?;
        Ok(whole.less(&used))
    }
}
