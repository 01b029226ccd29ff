//! Judges an agent anew when one of its tasks moves, without waiting for the next look at Coder.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::{AgentState, Snapshot};
use crate::domain::agent::Sighting;
use crate::domain::id::AgentId;
use crate::domain::status::{Observation, judge};
use crate::domain::task;
use crate::store::Seen;

impl Fleet {
    /// Shows the agent's tasks as the store has them now, and the status that follows.
    pub(in crate::app) async fn tasks_publish(&self, agent: AgentId) -> Result<(), Error> {
        let tasks = self.store().tasks_latest_of(agent).await?;
        self.board().update(|snapshot| {
            if let Some(state) = state_mut(snapshot, agent)
                && state.tasks.version <= tasks.version
            {
                state.tasks = tasks;
            }
        });
        self.judge_again(agent).await?;
        self.nudge_tasks();
        Ok(())
    }

    /// Notes that the agent's app waits for input.
    pub(super) async fn note_rest(&self, agent: AgentId, at: DateTime<Utc>) -> Result<(), Error> {
        self.board().update(|snapshot| {
            if let Some(state) = state_mut(snapshot, agent) {
                state.live.resting_at = Some(at);
            }
        });
        self.judge_again(agent).await
    }

    /// Only a workspace that is up is busy or idle; all else is Coder's to say.
    pub(super) async fn judge_again(&self, agent: AgentId) -> Result<(), Error> {
        let snapshot = self.board().now();
        let Some(state) = snapshot.by_id(agent) else { return Ok(()) };
        let known = &state.agent.sighting;
        let Some(observation) = state.live.observation.as_ref().filter(|_| known.status.is_ready()) else {
            return Ok(());
        };
        let now = Utc::now();
        let verdict = judge(&Observation {
            task: task::seen(state.tasks.seen(known.generation), now),
            resting_at: state.live.resting_at,
            now,
            ..Observation::clone(observation)
        });
        let is_same = (verdict.status, &verdict.reason, verdict.attention)
            == (known.status, &known.reason, known.attention);
        if is_same {
            return Ok(());
        }
        let seen = Seen { verdict, generation: known.generation, observed_at: known.observed_at };
        let written = self.store().agent_sight(agent, &seen).await?;
        self.show(agent, written);
        Ok(())
    }

    fn show(&self, agent: AgentId, written: Sighting) {
        let revision = written.revision;
        self.board().update(|snapshot| {
            if let Some(state) = state_mut(snapshot, agent)
                && state.agent.sighting.revision <= revision
            {
                state.agent.sighting = written;
            }
        });
        self.board().raise(revision);
    }
}

fn state_mut(snapshot: &mut Snapshot, agent: AgentId) -> Option<&mut AgentState> {
    let state = snapshot.agents.values_mut().find(|state| state.agent.id == agent)?;
    Some(Arc::make_mut(state))
}
