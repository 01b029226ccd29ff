//! The wait after the last fault, until all work has ended; work that is open after 60 s is stuck.

use std::time::Duration;

use tokio::time::Instant;

use super::checks::{may_wait, statuses};
use super::facts::{Facts, gather};
use super::world::World;
use crate::harness::Up;

pub(super) const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(400);
/// How often in a row everything must be at rest: the fleet's list lags behind Coder by a poll.
const SETTLED_LOOKS: u32 = 3;

/// The facts at rest, or after the limit; with how long that took.
pub(super) async fn settled(world: &World, up: &Up) -> (Facts, Duration) {
    let began = Instant::now();
    let mut n_settled = 0;
    loop {
        let facts = gather(world, up).await;
        n_settled = if unsettled(&facts).is_empty() { n_settled + 1 } else { 0 };
        if n_settled == SETTLED_LOOKS || began.elapsed() > LIMIT {
            return (facts, began.elapsed());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is still under way.
pub(super) fn unsettled(facts: &Facts) -> Vec<String> {
    let mut found = Vec::new();
    for (id, operation) in facts.rows.operations.iter().filter(|(_, row)| row.ended_at.is_none()) {
        found.push(format!(
            "operation {id} is open: {operation:?}, agent {:?}",
            facts.status_of(&operation.agent)
        ));
    }
    for (id, squad) in facts.rows.squads.iter().filter(|(_, row)| row.ended_at.is_none()) {
        found.push(format!("squad {id} is open: {squad:?}"));
    }
    for (id, task) in facts.rows.tasks.iter().filter(|(_, row)| row.ended_at.is_none()) {
        let status = facts.status_of(&task.agent);
        if !may_wait(&task.state, status) {
            found.push(format!("task {id} is open: {task:?}, agent {status:?}"));
        }
    }
    for agent in &facts.agents {
        let status = agent["status"].as_str().unwrap_or_default();
        let is_resting = ["idle", "stopped", "failed", "canceled"].contains(&status);
        if !is_resting || (status == "idle" && agent["attention"] == "unreachable") {
            found.push(format!("agent {} is {status}: {}", agent["name"], agent["reason"]));
        }
    }
    // What a runner's death shows takes a poll, and the processes were looked at before the list was read.
    found.extend(statuses(facts));
    found
}
