//! Provisions every ready agent; failures are retried with back-off.

use std::sync::Arc;

use chrono::Utc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::pool::{Next, Pauses, Pool};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::provision::{ProvisionError, ProvisionState};
use crate::app::snapshot::AgentState;
use crate::domain::id::AgentId;
use crate::domain::provision::Provision;

/// Limit of concurrent writes to workspaces.
const PARALLEL: usize = 4;

impl Fleet {
    pub(super) async fn provisions_until(self, stop: CancellationToken) {
        // Without a server address an agent cannot use a token.
        let Some(url) = self.options().callback_url.as_deref() else { return };
        let mut changes = self.board().changes();
        let permits = Arc::new(Semaphore::new(PARALLEL));
        // Tokens expire without a notification.
        let pauses = Pauses { read: self.limits().provision_read, ..Pauses::of(self.limits()) };
        let mut pool = Pool::new("provision", pauses, stop);
        while pool.turn(changes.changed()).await {
            let snapshot = self.board().now();
            for state in snapshot.agents.values().filter(|state| due(state, url).is_some()) {
                let worker =
                    self.clone().provision_work(state.agent.id, url.to_owned(), Arc::clone(&permits));
                pool.start(state.agent.id, worker);
            }
        }
    }

    /// Provisions one agent until nothing is missing. An interrupted write is repeated after a restart of the server,
    /// since only complete ones are recorded.
    async fn provision_work(
        self,
        agent: AgentId,
        url: String,
        permits: Arc<Semaphore>,
    ) -> Result<Next, Error> {
        let mut n_failures = 0;
        loop {
            let permit = permits.acquire().await;
            let Some(state) = self.board().now().by_id(agent).cloned() else { break };
            let Some(workspace_agent) = due(&state, &url) else { break };
            let provisioned = self.agent_provision(&state, workspace_agent, &url).await;
            drop(permit);
            match provisioned {
                Ok(provision) => self.provision_show(agent, |provision_state| {
                    *provision_state = ProvisionState { delivered: Some(provision), failure: None };
                }),
                Err(ProvisionError(reason)) => {
                    let pause = self.limits().provision_retry.pause(n_failures);
                    n_failures += 1;
                    tracing::warn!(
                        agent.id = %agent, reason, n_failures,
                        "the token of an agent could not be delivered"
                    );
                    self.provision_show(agent, |provision_state| provision_state.failure = Some(reason));
                    let restarted = self.restarted_or_gone(agent, state.agent.sighting.generation);
                    // Another start of the agent gets its own worker at once.
                    if tokio::time::timeout(pause, restarted).await.is_ok() {
                        break;
                    }
                }
            }
        }
        Ok(Next::ReadOpenWork)
    }

    /// Returns when the agent was restarted or is gone.
    async fn restarted_or_gone(&self, agent: AgentId, generation: i64) {
        let mut changes = self.board().changes();
        let is_same = |state: &Arc<AgentState>| state.agent.sighting.generation == generation;
        while self.board().now().by_id(agent).is_some_and(is_same) {
            let _changed = changes.changed().await;
        }
    }

    fn provision_show(&self, agent: AgentId, change: impl FnOnce(&mut ProvisionState)) {
        self.board().update(|snapshot| {
            let state = snapshot.agents.values_mut().find(|state| state.agent.id == agent);
            if let Some(state) = state {
                change(&mut Arc::make_mut(state).provision_state);
            }
        });
    }
}

/// The workspace agent to write to, if the agent is ready and its files are missing or outdated.
fn due(state: &AgentState, url: &str) -> Option<Uuid> {
    let sighting = &state.agent.sighting;
    if !sighting.status.is_ready() || state.standing().is_stopped() {
        return None;
    }
    let is_served = |given: &Provision| given.serves(sighting.generation, url, Utc::now());
    if state.provision_state.delivered.as_ref().is_some_and(is_served) {
        return None;
    }
    state.live.workspace_agent
}
