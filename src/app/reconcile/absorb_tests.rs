//! The order of two polls of an agent.

use std::time::Duration;

use chrono::TimeDelta;

use super::*;
use crate::app::snapshot::tests::agent;
use crate::domain::agent::AgentStatus;
use crate::domain::metadata::Metadata;
use crate::domain::role::RoleKind;
use crate::store::LatestTasks;

fn snapshot(state: AgentState) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.agents.insert(state.agent.name.key().into(), Arc::new(state));
    snapshot
}

fn update(state: &AgentState, at: DateTime<Utc>, began: Instant) -> AgentUpdate {
    AgentUpdate {
        agent: state.agent.id,
        name_key: state.agent.name.key(),
        known: state.agent.sighting.clone(),
        seen: NewSighting {
            verdict: Verdict::new(AgentStatus::Idle, "seen"),
            generation: 1,
            observed_at: Some(at),
        },
        live: LiveState { poll_began: Some(began), ..LiveState::default() },
        workspace_url: "https://coder/@me/one".to_owned(),
        tasks_stamp: state.tasks.stamp(),
        reports: Vec::new(),
        usage: None,
    }
}

#[test]
fn a_later_look_counts_though_the_clock_was_set_back() {
    let (now, began) = (Utc::now(), Instant::now());
    let mut state = AgentState::new(agent(now), RoleKind::Coding, LatestTasks::default(), Metadata::new());
    state.agent.sighting.observed_at = Some(now);
    state.live.poll_began = Some(began);
    let (an_hour_ago, later) = (now - TimeDelta::hours(1), began + Duration::from_secs(1));
    let shown = |update: AgentUpdate| {
        let mut snapshot = snapshot(state.clone());
        publish(&mut snapshot, update, None);
        let state = Arc::clone(snapshot.by_name("one").unwrap());
        (state.agent.sighting.observed_at, state.live.poll_began)
    };
    assert_eq!(shown(update(&state, an_hour_ago, later)), (Some(an_hour_ago), Some(later)));
    let earlier = began - Duration::from_secs(1);
    assert_eq!(shown(update(&state, now + TimeDelta::hours(1), earlier)), (Some(now), Some(began)));
}
