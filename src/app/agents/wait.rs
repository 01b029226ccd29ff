//! Waits for changes of agents, with a cursor so that no change is missed between two calls.

use std::collections::HashSet;
use std::sync::Arc;

use super::{AgentChange, WaitAgents, WaitResult};
use crate::app::Fleet;
use crate::app::caller::{AuditedCall, Caller};
use crate::app::error::Error;
use crate::app::snapshot::{AgentState, Snapshot};
use crate::domain::access::{Action, Target};
use crate::domain::agent::{Agent, AgentStatus, Until};
use crate::domain::id::AgentId;
use crate::domain::metadata::Metadata;
use crate::domain::name::name_key;
use crate::store::LatestTasks;

impl Fleet {
    pub async fn agent_wait(&self, caller: &Caller, request: WaitAgents) -> Result<WaitResult, Error> {
        let call = AuditedCall { caller, action: Action::AgentWait, target: None };
        self.permit(&call, Target::Fleet).await?;
        self.while_admitted(caller, self.agents_awaited(request)).await
    }

    async fn agents_awaited(&self, request: WaitAgents) -> Result<WaitResult, Error> {
        let mut changes = self.board().changes();
        let since = request.cursor.unwrap_or(*changes.borrow());
        let watched = self.watched(&request.names).await?;
        let wait = self.wait(request.timeout);
        loop {
            let revision = *changes.borrow_and_update();
            let changed = self.agents_changed(since, &watched).await?;
            if self.is_reached(request.until, &changed, &watched) {
                let changed = self.with_unchanged(request.until, changed, &watched).await?;
                return Ok(WaitResult { changed, cursor: revision, timed_out: false });
            }
            if !wait.goes_on(changes.changed()).await {
                let changed = self.agents_changed(since, &watched).await?;
                let changed = self.with_unchanged(request.until, changed, &watched).await?;
                return Ok(WaitResult { changed, cursor: revision, timed_out: true });
            }
        }
    }

    /// Agents changed after a revision, live and deleted, in the order of the changes.
    pub async fn changes_after(&self, revision: i64) -> Result<Vec<AgentChange>, Error> {
        self.agents_changed(revision, &HashSet::new()).await
    }

    /// Ids of the named agents, including recently deleted ones.
    async fn watched(&self, names: &[String]) -> Result<HashSet<AgentId>, Error> {
        let mut ids = HashSet::new();
        for name in names {
            let found = self.store().agent_newest_by_name(&name_key(name)).await?;
            ids.insert(found.ok_or_else(|| self.agent_not_found(name))?.id);
        }
        Ok(ids)
    }

    async fn agents_changed(
        &self,
        since: i64,
        watched: &HashSet<AgentId>,
    ) -> Result<Vec<AgentChange>, Error> {
        if self.board().revision() <= since {
            return Ok(Vec::new());
        }
        let rows = self.store().agents_changed_after(since).await?;
        let snapshot = self.board().now();
        let rows = rows.into_iter().filter(|agent| watched.is_empty() || watched.contains(&agent.id));
        Ok(rows.map(|agent| self.changed(&snapshot, agent)).collect())
    }

    /// The store's row takes precedence: the snapshot may lag behind for one agent while a later change of another
    /// agent is visible, and a reader that continues from that later change would miss the earlier one.
    fn changed(&self, snapshot: &Snapshot, row: Agent) -> AgentChange {
        let (previous_status, revision) = (row.sighting.previous_status, row.sighting.revision);
        let live = snapshot.by_name(row.name.as_str()).filter(|state| state.agent.id == row.id);
        let agent = match live {
            Some(state) if state.agent.sighting.revision >= revision => Arc::clone(state),
            Some(state) => Arc::new(AgentState { agent: row, ..AgentState::clone(state) }),
            None => {
                let kind = self.role_kind_or_coding(&row.role);
                Arc::new(AgentState::new(row, kind, LatestTasks::default(), Metadata::new()))
            }
        };
        AgentChange { agent, previous_status, revision }
    }

    /// Whether the awaited state is reached.
    fn is_reached(&self, until: Until, changed: &[AgentChange], watched: &HashSet<AgentId>) -> bool {
        match until {
            Until::AnyChange => !changed.is_empty(),
            Until::Idle => self.all(watched, is_at_rest),
            Until::Done => self.all(watched, |state| is_at_rest(state) && state.tasks.open.is_none()),
        }
    }

    /// A wait for a state returns a row per named agent, changed agents first.
    async fn with_unchanged(
        &self,
        until: Until,
        mut changed: Vec<AgentChange>,
        watched: &HashSet<AgentId>,
    ) -> Result<Vec<AgentChange>, Error> {
        if until == Until::AnyChange {
            return Ok(changed);
        }
        let included: HashSet<AgentId> = changed.iter().map(|changed| changed.agent.agent.id).collect();
        let mut others = Vec::new();
        for id in watched.difference(&included) {
            others.extend(self.store().agent_by_id(*id).await?);
        }
        others.sort_by_key(|agent| agent.sighting.revision);
        let snapshot = self.board().now();
        changed.extend(others.into_iter().map(|agent| self.changed(&snapshot, agent)));
        Ok(changed)
    }

    /// Whether all watched agents fulfill the condition; deleted agents do not count.
    fn all(&self, watched: &HashSet<AgentId>, holds: impl Fn(&AgentState) -> bool) -> bool {
        let snapshot = self.board().now();
        snapshot
            .agents
            .values()
            .filter(|state| watched.is_empty() || watched.contains(&state.agent.id))
            .all(|state| holds(state))
    }
}

/// Idle, or in a state that does not become idle by itself.
fn is_at_rest(state: &AgentState) -> bool {
    let status = state.agent.sighting.status;
    status != AgentStatus::Busy && !status.is_moving()
}
