//! Showing one agent with everything known of it.

use std::sync::Arc;

use chrono::Utc;

use super::deed;
use crate::app::Fleet;
use crate::app::caller::Caller;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::access::Action;
use crate::domain::metadata;

impl Fleet {
    pub async fn agent_show(&self, caller: &Caller, name: &str) -> Result<Arc<AgentState>, Error> {
        let deed = deed(caller, Action::AgentShow, name);
        let state = self.agent_permitted(&deed, name).await?;
        Ok(self.with_fresh_metadata(state).await)
    }

    /// Adds what the workspace agent's own stream shows; a failure there never fails the call.
    async fn with_fresh_metadata(&self, state: Arc<AgentState>) -> Arc<AgentState> {
        let Some(workspace_agent) = state.live.workspace_agent else { return state };
        let Some(fresh) = self.0.metadata.read(workspace_agent).await else { return state };
        let mut state = AgentState::clone(&state);
        let dated = metadata::date(&state.live.metadata, (*fresh).clone(), Utc::now());
        state.live.metadata.extend(dated);
        state.merge_metadata();
        Arc::new(state)
    }
}
