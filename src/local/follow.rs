//! Follows an agent's process: shows it come up, notices at once when it ends, and when it stops answering.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::time::Instant;
use uuid::Uuid;

use super::process::{ProcessId, exited};
use super::record::{Agent, AppHealth, Lifecycle};
use super::{Deployment, clear, probe};

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Shows the agent of a start that has succeeded as connected and ready, in Coder's order of words, and follows
/// it from then on. One found again after a crash may have been shown half of it: the rest follows.
pub(crate) fn begin(deployment: &Arc<Deployment>, workspace: Uuid) {
    let Some(agent) = current(deployment, workspace) else { return };
    let steps: [fn(&mut Agent); 4] = [
        Agent::connect,
        |agent| {
            agent.lifecycle = Lifecycle::Starting;
            agent.started_at.get_or_insert_with(Utc::now);
        },
        |agent| {
            agent.lifecycle = Lifecycle::Ready;
            agent.ready_at.get_or_insert_with(Utc::now);
        },
        |agent| agent.app_health = AppHealth::Healthy,
    ];
    let is_shown = agent.app_health == AppHealth::Healthy;
    for step in steps.into_iter().take(if is_shown { 1 } else { 4 }) {
        amend(deployment, workspace, agent.id, step);
    }
    deployment.tasks.spawn(follow(Arc::clone(deployment), workspace, agent));
}

async fn follow(deployment: Arc<Deployment>, workspace: Uuid, agent: Agent) {
    let Some(process) = agent.process else { return };
    let gone = has_ended(&process);
    tokio::pin!(gone);
    let mut answered_at = Instant::now();
    loop {
        tokio::select! {
            () = deployment.stop.cancelled() => return,
            () = &mut gone => return mourn(&deployment, workspace, agent.id).await,
            is_there = look(&agent) => {
                if is_there {
                    answered_at = Instant::now();
                }
                see(&deployment, workspace, agent.id, answered_at.elapsed() < deployment.options.silence_limit);
            }
        }
    }
}

/// That we cannot look, for want of descriptors perhaps, says nothing about the process.
async fn has_ended(process: &ProcessId) {
    while let Err(error) = exited(process).await {
        tracing::warn!(process.pid = process.pid, %error, "cannot look whether an agent's process runs");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn look(agent: &Agent) -> bool {
    tokio::time::sleep(LOOK_EVERY).await;
    probe::answers(&agent.socket).await
}

/// Words change only with the connection, so that watchers are not woken for nothing.
fn see(deployment: &Deployment, workspace: Uuid, agent: Uuid, is_heard: bool) {
    let is_shown = deployment.read(|memory| {
        let known = memory.workspaces.get(&workspace).and_then(|workspace| workspace.agent());
        known.is_some_and(|known| known.unhealthy_reason().is_none())
    });
    match (is_shown, is_heard) {
        (true, false) => amend(deployment, workspace, agent, Agent::disconnect),
        (false, true) => amend(deployment, workspace, agent, Agent::connect),
        (true, true) | (false, false) => {}
    }
}

/// The process ended though nobody stopped the workspace: what it leaves behind would work unseen.
async fn mourn(deployment: &Arc<Deployment>, workspace: Uuid, agent: Uuid) {
    let is_current = current(deployment, workspace).is_some_and(|known| known.id == agent);
    if !is_current {
        return;
    }
    tracing::warn!(workspace.id = %workspace, "the process of an agent ended");
    amend(deployment, workspace, agent, Agent::disconnect);
    clear::after_agent(deployment, workspace, agent).await;
}

fn current(deployment: &Deployment, workspace: Uuid) -> Option<Agent> {
    deployment.read(|memory| memory.workspaces.get(&workspace)?.agent().cloned())
}

fn amend(deployment: &Deployment, workspace: Uuid, agent: Uuid, change: impl FnOnce(&mut Agent)) {
    let amended = deployment.amend(workspace, |workspace| {
        if let Some(agent) = workspace.agent_mut(agent) {
            change(agent);
        }
    });
    if let Some(saving) = amended {
        saving.unawaited();
    }
}
