//! Judges an agent again when one of its tasks changes, without waiting for the next poll.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::snapshot::{AgentState, Snapshot};
use crate::domain::agent::Sighting;
use crate::domain::id::AgentId;
use crate::domain::status::{Observation, judge};
use crate::domain::task;
use crate::store::{LatestTasks, NewSighting};

impl Fleet {
    /// Publishes the agent's stored tasks together with the resulting status, so that no reader sees an ended task
    /// beside its old status.
    pub(in crate::app) async fn tasks_publish(&self, agent: AgentId) -> Result<(), Error> {
        let tasks = self.store().tasks_latest_of(agent).await?;
        let judged = self.judge_with(agent, &tasks).await;
        let is_newest = self.tasks_show(agent, tasks, judged.as_ref().ok().and_then(Option::as_ref));
        match judged? {
            Some(written) if is_newest => self.board().raise(written.revision),
            Some(written) => self.judge_newer_tasks(agent, written).await?,
            None => {}
        }
        self.nudge_tasks();
        Ok(())
    }

    /// Returns false if newer tasks are already published.
    fn tasks_show(&self, agent: AgentId, tasks: LatestTasks, judged: Option<&Sighting>) -> bool {
        let mut is_newest = false;
        self.board().update(|snapshot| {
            let state = state_mut(snapshot, agent).filter(|state| state.tasks.stamp() <= tasks.stamp());
            let Some(state) = state else { return };
            is_newest = true;
            state.tasks = tasks;
            if let Some(written) = judged {
                show_in(state, written);
            }
        });
        is_newest
    }

    /// The written sighting is based on outdated tasks: publish it only if the newer tasks confirm it.
    async fn judge_newer_tasks(&self, agent: AgentId, written: Sighting) -> Result<(), Error> {
        let snapshot = self.board().now();
        let Some(state) = snapshot.by_id(agent) else { return Ok(()) };
        let corrected = self.judge_against(state, &state.tasks, &written).await?;
        self.show(agent, &corrected.unwrap_or(written));
        Ok(())
    }

    /// Records that the agent's app waits for input.
    pub(super) async fn note_rest(&self, agent: AgentId, at: DateTime<Utc>) -> Result<(), Error> {
        self.board().update(|snapshot| {
            if let Some(state) = state_mut(snapshot, agent) {
                state.live.resting_at = Some(at);
            }
        });
        self.judge_again(agent).await
    }

    /// Judges again with the current tasks. Applies only to ready agents: any other state comes from Coder.
    pub(super) async fn judge_again(&self, agent: AgentId) -> Result<(), Error> {
        let Some(tasks) = self.board().now().by_id(agent).map(|state| state.tasks.clone()) else {
            return Ok(());
        };
        if let Some(written) = self.judge_with(agent, &tasks).await? {
            self.show(agent, &written);
        }
        Ok(())
    }

    /// The stored sighting that follows from these tasks; none if it is unchanged.
    async fn judge_with(&self, agent: AgentId, tasks: &LatestTasks) -> Result<Option<Sighting>, Error> {
        let snapshot = self.board().now();
        let Some(state) = snapshot.by_id(agent) else { return Ok(None) };
        self.judge_against(state, tasks, &state.agent.sighting).await
    }

    async fn judge_against(
        &self,
        state: &AgentState,
        tasks: &LatestTasks,
        known: &Sighting,
    ) -> Result<Option<Sighting>, Error> {
        let Some(observation) = state.live.observation.as_ref().filter(|_| known.status.is_ready()) else {
            return Ok(None);
        };
        let clock = self.clock();
        let verdict = judge(&Observation {
            task: task::seen(tasks.seen(known.generation), &clock),
            resting_at: state.live.resting_at,
            clock,
            ..Observation::clone(observation)
        });
        let is_same = (verdict.status, &verdict.reason, verdict.attention)
            == (known.status, &known.reason, known.attention);
        if is_same {
            return Ok(None);
        }
        let seen = NewSighting { verdict, generation: known.generation, observed_at: known.observed_at };
        Ok(Some(self.store().agent_sight(state.agent.id, &seen).await?))
    }

    pub(super) fn show(&self, agent: AgentId, written: &Sighting) {
        let revision = written.revision;
        self.board().update(|snapshot| {
            if let Some(state) = state_mut(snapshot, agent) {
                show_in(state, written);
            }
        });
        self.board().raise(revision);
    }
}

fn show_in(state: &mut AgentState, written: &Sighting) {
    if state.agent.sighting.revision <= written.revision {
        state.agent.sighting = written.clone();
    }
}

fn state_mut(snapshot: &mut Snapshot, agent: AgentId) -> Option<&mut AgentState> {
    let state = snapshot.agents.values_mut().find(|state| state.agent.id == agent)?;
    Some(Arc::make_mut(state))
}
