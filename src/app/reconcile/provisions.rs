//! Sees to it that every agent that is ready has what its start needs; what fails is tried again, ever more seldom.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::app::Fleet;
use crate::app::provision::{Identity, Trouble};
use crate::app::snapshot::AgentState;
use crate::domain::id::AgentId;
use crate::domain::provision::Provision;

/// Workspaces written to at once.
const PARALLEL: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// How often to look without being told of a change: tokens run out and pauses end.
const TURN: Duration = Duration::from_secs(1);

/// What is under way, and who has to wait.
#[derive(Default)]
struct Running {
    tasks: JoinSet<(AgentId, i64, Result<Provision, Trouble>)>,
    under_way: HashMap<AgentId, i64>,
    pauses: HashMap<AgentId, Pause>,
}

/// After a failure; another start of the agent ends it at once.
struct Pause {
    generation: i64,
    n_failures: u32,
    until: Instant,
}

impl Fleet {
    pub(super) async fn provisions_until(&self, stop: CancellationToken) {
        // Without an address of ours there is nothing an agent could do with a token.
        let Some(url) = self.options().callback_url.clone() else { return };
        let mut changes = self.board().changes();
        let mut running = Running::default();
        loop {
            changes.mark_unchanged();
            self.provisions_begin(&mut running, &url);
            tokio::select! {
                _ = changes.changed() => {}
                Some(ended) = running.tasks.join_next() => self.provisions_note(&mut running, ended.ok()),
                () = tokio::time::sleep(TURN) => {}
                () = stop.cancelled() => break,
            }
        }
        // A write that is cut off is repeated after the next start: nothing was recorded of it.
        running.tasks.shutdown().await;
    }

    fn provisions_begin(&self, running: &mut Running, url: &str) {
        let snapshot = self.board().now();
        running.pauses.retain(|agent, _| snapshot.by_id(*agent).is_some());
        for state in snapshot.agents.values() {
            if running.tasks.len() >= PARALLEL {
                return;
            }
            let Some(workspace_agent) = due(state, url).filter(|_| running.may_begin(state)) else {
                continue;
            };
            let (agent, generation) = (state.agent.id, state.agent.sighting.generation);
            running.under_way.insert(agent, generation);
            let (fleet, state, url) = (self.clone(), Arc::clone(state), url.to_owned());
            running.tasks.spawn(async move {
                (agent, generation, fleet.agent_provision(&state, workspace_agent, &url).await)
            });
        }
    }

    /// Shows what came of it; a failure is said once and waits longer each time.
    fn provisions_note(
        &self,
        running: &mut Running,
        ended: Option<(AgentId, i64, Result<Provision, Trouble>)>,
    ) {
        let Some((agent, generation, result)) = ended else {
            // A task that panicked names no agent.
            running.under_way.clear();
            return;
        };
        running.under_way.remove(&agent);
        match result {
            Ok(provision) => {
                running.pauses.remove(&agent);
                self.identity_show(agent, |identity| {
                    *identity = Identity { given: Some(provision), trouble: None };
                });
            }
            Err(Trouble(reason)) => {
                let n_failures = running.pause(agent, generation);
                tracing::warn!(agent.id = %agent, reason, n_failures, "an agent could not be given its token");
                self.identity_show(agent, |identity| identity.trouble = Some(reason));
            }
        }
    }

    fn identity_show(&self, agent: AgentId, change: impl FnOnce(&mut Identity)) {
        self.board().update(|snapshot| {
            let state = snapshot.agents.values_mut().find(|state| state.agent.id == agent);
            if let Some(state) = state {
                change(&mut Arc::make_mut(state).identity);
            }
        });
    }
}

/// The workspace agent to write to, if this agent is ready and has not what it should have.
fn due(state: &AgentState, url: &str) -> Option<Uuid> {
    let sighting = &state.agent.sighting;
    if !sighting.status.is_ready() || state.standing().is_stopped() {
        return None;
    }
    let is_served = |given: &Provision| given.serves(sighting.generation, url, Utc::now());
    if state.identity.given.as_ref().is_some_and(is_served) {
        return None;
    }
    state.live.workspace_agent
}

impl Running {
    fn may_begin(&self, state: &AgentState) -> bool {
        let pause = self.pauses.get(&state.agent.id);
        let is_paused = pause.is_some_and(|pause| {
            pause.generation == state.agent.sighting.generation && Instant::now() < pause.until
        });
        !is_paused && !self.under_way.contains_key(&state.agent.id)
    }

    fn pause(&mut self, agent: AgentId, generation: i64) -> u32 {
        let before = self.pauses.get(&agent).filter(|pause| pause.generation == generation);
        let n_failures = before.map_or(0, |pause| pause.n_failures).saturating_add(1);
        let doubled = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(n_failures - 1));
        let until = Instant::now() + doubled.min(LONGEST_PAUSE);
        self.pauses.insert(agent, Pause { generation, n_failures, until });
        n_failures
    }
}
