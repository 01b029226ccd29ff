//! Listing: filters and pages over the snapshot, never a call to Coder.

use std::sync::Arc;

use super::{AgentPage, ListAgents};
use crate::app::Fleet;
use crate::app::caller::{Caller, Deed};
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::access::{Action, Target};
use crate::domain::agent::AgentStatus;
use crate::domain::metadata::Metadata;
use crate::domain::name::name_key;
use crate::domain::page::Page;
use crate::store::LatestTasks;

/// Names of the workspaces that squads and spawns run in.
const RUNS_PREFIX: &str = "runs-";

impl Fleet {
    pub async fn agent_list(&self, caller: &Caller, request: ListAgents) -> Result<AgentPage, Error> {
        let deed = Deed { caller, action: Action::AgentList, target: None };
        self.permit(&deed, Target::Fleet).await?;
        let snapshot = self.board().now();
        if snapshot.observed_at.is_none() && snapshot.agents.is_empty() {
            let error = self.health().now().error;
            return Err(Error::CoderUnavailable(
                error.unwrap_or_else(|| "the fleet has not been seen yet".into()),
            ));
        }
        let page = if request.statuses.as_deref() == Some(&[AgentStatus::Deleted]) {
            self.agents_deleted(&request).await?
        } else {
            let fitting: Vec<_> =
                snapshot.agents.values().filter(|state| fits(state, &request)).cloned().collect();
            request.page.of(&fitting)
        };
        Ok(AgentPage { page, counts: snapshot.counts() })
    }

    async fn agents_deleted(&self, request: &ListAgents) -> Result<Page<Arc<AgentState>>, Error> {
        let page = self.store().agents_deleted(request.page).await?;
        Ok(page.map(|agent| {
            let kind = self.role_kind_or_coding(&agent.role);
            Arc::new(AgentState::new(agent, kind, LatestTasks::default(), Metadata::new()))
        }))
    }
}

fn fits(state: &AgentState, request: &ListAgents) -> bool {
    let agent = &state.agent;
    let is_named =
        |filter: &Option<String>, value: &str| filter.as_ref().is_none_or(|f| name_key(f) == name_key(value));
    let has_status = request.statuses.as_ref().is_none_or(|wanted| wanted.contains(&agent.sighting.status));
    let is_shown = request.include_runs || !agent.name.key().starts_with(RUNS_PREFIX);
    has_status
        && is_shown
        && is_named(&request.project, &agent.project)
        && is_named(&request.role, &agent.role)
}
