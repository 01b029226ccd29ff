//! Shows one agent in detail.

use std::sync::Arc;

use chrono::Utc;
use tokio::time::Instant;

use super::audited_call;
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::app::error::Error;
use crate::app::metadata_reader::Values;
use crate::app::snapshot::AgentState;
use crate::app::usage;
use crate::domain::access::Action;
use crate::domain::id::AgentId;
use crate::domain::metadata;

impl Fleet {
    pub async fn agent_show(&self, caller: &Caller, name: &str) -> Result<Arc<AgentState>, Error> {
        let call = audited_call(caller, Action::AgentShow, name);
        let (_, permitted) = self.agent_permitted(&call, name).await?.into_parts();
        self.metadata_refresh(&permitted).await;
        let starts = self.starts_of(&permitted).await;
        // The state may have changed while Coder was queried.
        let mut state = self.board().now().by_id(permitted.agent.id).cloned().unwrap_or(permitted);
        Arc::make_mut(&mut state).starts = starts;
        Ok(state)
    }

    /// Builds include stops, so that only the number of a first start is known without counting.
    async fn starts_of(&self, state: &AgentState) -> Option<i64> {
        match (state.agent.workspace_id, state.agent.sighting.generation) {
            (_, generation @ ..=1) => Some(generation),
            (Some(workspace), generation) if self.health().now().is_reachable() => {
                self.0.starts.read(workspace, generation).await?.count
            }
            (Some(_) | None, _) => None,
        }
    }

    /// Reads the last metadata of an agent before it stops, since its usage may be lost with it. An error does not
    /// delay the stop.
    pub(in crate::app) async fn metadata_keep_last(&self, agent: AgentId) {
        let Some(state) = self.board().now().by_id(agent).cloned() else { return };
        if let Some(workspace_agent) = state.live.workspace_agent {
            self.0.metadata.forget(workspace_agent).await;
            self.metadata_refresh(&state).await;
        }
    }

    /// Adds values from the workspace agent's metadata stream; an error there never fails the call.
    pub(super) async fn metadata_refresh(&self, state: &AgentState) {
        let Some(workspace_agent) = state.live.workspace_agent else { return };
        let refresh = async {
            let began = Instant::now();
            let values = self.0.metadata.read(workspace_agent).await?;
            self.metadata_absorb(state, values, began).await;
            Ok(())
        };
        self.0.metadata.refresh(workspace_agent, refresh).await;
    }

    /// Values that are known already keep the date of their first sight.
    async fn metadata_absorb(&self, state: &AgentState, shown: Values, began: Instant) {
        let known = &state.live.metadata;
        if shown.iter().all(|(key, value)| known.get(key).is_some_and(|dated| dated.value == *value)) {
            return;
        }
        let reported = usage::reported(&shown, state.agent.sighting.generation);
        let new_figures = usage::new_figures(state, reported);
        if let Err(error) = self.usage_absorb(new_figures.into_iter().collect()).await {
            tracing::debug!(%error, "the usage of an agent could not be counted");
        }
        self.board().update(|snapshot| {
            let known = snapshot.agents.values_mut().find(|known| known.agent.id == state.agent.id);
            if let Some(known) = known.map(Arc::make_mut) {
                let dated = metadata::date(&known.live.metadata, shown, Utc::now());
                known.live.add_metadata(dated, Some(began));
                known.merge_metadata();
            }
        });
    }
}
