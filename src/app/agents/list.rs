//! Lists agents: filters and pages over the snapshot, without a request to Coder.

use std::sync::Arc;

use super::{AgentPage, ListAgents, NOT_POLLED};
use crate::app::Fleet;
use crate::app::caller::{AuditedCall, Caller};
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::access::{Action, Target};
use crate::domain::agent::AgentStatus;
use crate::domain::metadata::Metadata;
use crate::domain::name::name_key;
use crate::domain::page::{MAX_SIZE, PageRequest};
use crate::store::LatestTasks;

/// The largest number of pages of deleted agents in a list.
const DELETED_PAGES: i64 = 20;

impl Fleet {
    pub async fn agent_list(&self, caller: &Caller, request: ListAgents) -> Result<AgentPage, Error> {
        let call = AuditedCall { caller, action: Action::AgentList, target: None };
        self.permit(&call, Target::Fleet).await?;
        let snapshot = self.board().now();
        if snapshot.observed_at.is_none() && snapshot.agents.is_empty() {
            return Err(self.health().now().unavailable(NOT_POLLED));
        }
        let live = snapshot.agents.values().cloned();
        let mut agents: Vec<Arc<AgentState>> =
            live.filter(|state| matches_filters(state, &request)).collect();
        if request.statuses.iter().flatten().any(|status| *status == AgentStatus::Deleted) {
            agents.extend(
                self.agents_deleted().await?.into_iter().filter(|state| matches_filters(state, &request)),
            );
        }
        Ok(AgentPage { page: request.page.of(&agents), counts: snapshot.counts() })
    }

    /// Deleted agents, latest deletion first, up to a limit.
    async fn agents_deleted(&self) -> Result<Vec<Arc<AgentState>>, Error> {
        let mut found = Vec::new();
        for number in 1..=DELETED_PAGES {
            let page = PageRequest::parse(number, i64::from(MAX_SIZE))
                .map_err(|e| Error::invalid("page", e.to_string()))?;
            let page = self.store().agents_deleted(page).await?;
            let is_last = !page.has_next();
            found.extend(page.items.into_iter().map(|agent| {
                let kind = self.role_kind_or_coding(&agent.role);
                Arc::new(AgentState::new(agent, kind, LatestTasks::default(), Metadata::new()))
            }));
            if is_last {
                break;
            }
        }
        Ok(found)
    }
}

fn matches_filters(state: &AgentState, request: &ListAgents) -> bool {
    let agent = &state.agent;
    let is_named =
        |filter: &Option<String>, value: &str| filter.as_ref().is_none_or(|f| name_key(f) == name_key(value));
    let has_status = request.statuses.as_ref().is_none_or(|wanted| wanted.contains(&agent.sighting.status));
    let is_shown = request.include_runs || !agent.name.is_of_runs();
    has_status
        && is_shown
        && is_named(&request.project, &agent.project)
        && is_named(&request.role, &agent.role)
}
