//! Pauses operations while Coder is unreachable, and shows the reason on new agents.

use crate::app::Fleet;
use crate::app::agents::NOT_CREATED;
use crate::app::error::Error;
use crate::domain::agent::AgentStatus;
use crate::domain::id::AgentId;
use crate::domain::status::Verdict;
use crate::store::NewSighting;

impl Fleet {
    /// Returns once Coder responds.
    pub(super) async fn await_coder(&self, agent: AgentId) -> Result<(), Error> {
        loop {
            let health = self.health().now();
            self.show_awaited(agent, &health.awaited().unwrap_or_else(|| NOT_CREATED.to_owned())).await?;
            if health.is_reachable() {
                return Ok(());
            }
            self.health().changed_from(health.error.as_ref()).await;
        }
    }

    /// An agent with a workspace keeps its last polled state.
    async fn show_awaited(&self, agent: AgentId, reason: &str) -> Result<(), Error> {
        let snapshot = self.board().now();
        let Some(state) = snapshot.by_id(agent) else { return Ok(()) };
        let known = &state.agent.sighting;
        let is_not_created = known.status == AgentStatus::Pending && state.agent.workspace_id.is_none();
        if !is_not_created || known.reason == reason {
            return Ok(());
        }
        let verdict = Verdict::new(AgentStatus::Pending, reason);
        let seen = NewSighting { verdict, generation: known.generation, observed_at: None };
        let written = self.store().agent_sight(agent, &seen).await?;
        self.show(agent, &written);
        Ok(())
    }
}
