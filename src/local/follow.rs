//! Supervises an agent's process: shows it as connected, detects silence, and restarts it when it exits.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::time::Instant;
use uuid::Uuid;

use super::build::{self, BuildRequest};
use super::record::{Agent, AppHealth, Lifecycle, Reason, Workspace};
use super::{Deployment, LocalLimits, cleanup, probe};
use crate::coder::wire::Transition;
use crate::process::{ProcessId, exited};

/// Shows the agent of a succeeded start as connected and ready, in Coder's order of states, and supervises it from
/// then on. After a crash only the missing states follow.
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
    let limits = deployment.options.limits;
    let gone = has_ended(&process, limits.probe_interval);
    tokio::pin!(gone);
    let mut answered_at = Instant::now();
    loop {
        tokio::select! {
            () = deployment.stop.cancelled() => return,
            () = &mut gone => return on_exit(&deployment, workspace, agent.id).await,
            is_there = probe_after_pause(&agent, &limits) => {
                if is_there {
                    answered_at = Instant::now();
                }
                update_connection(&deployment, workspace, agent.id, answered_at.elapsed() < limits.silence);
            }
        }
    }
}

/// A failed look, for want of descriptors for example, tells nothing about the process.
async fn has_ended(process: &ProcessId, pause: Duration) {
    while let Err(error) = exited(process).await {
        tracing::warn!(process.pid = process.pid, %error, "cannot check whether an agent's process runs");
        tokio::time::sleep(pause).await;
    }
}

async fn probe_after_pause(agent: &Agent, limits: &LocalLimits) -> bool {
    tokio::time::sleep(limits.probe_interval).await;
    probe::answers(&agent.socket, limits.probe).await
}

/// States change only with the connection, so that watchers are not woken needlessly.
fn update_connection(deployment: &Deployment, workspace: Uuid, agent: Uuid, is_connected: bool) {
    let is_shown = deployment.read(|memory| {
        let known = memory.workspaces.get(&workspace).and_then(|workspace| workspace.agent());
        known.is_some_and(|known| known.unhealthy_reason().is_none())
    });
    match (is_shown, is_connected) {
        (true, false) => amend(deployment, workspace, agent, Agent::disconnect),
        (false, true) => amend(deployment, workspace, agent, Agent::connect),
        (true, true) | (false, false) => {}
    }
}

async fn on_exit(deployment: &Arc<Deployment>, workspace: Uuid, agent: Uuid) {
    let is_current = current(deployment, workspace).is_some_and(|known| known.id == agent);
    if is_current {
        tracing::warn!(workspace.id = %workspace, "the process of an agent ended");
        handle_lost_agent(deployment, workspace, agent).await;
    }
}

/// The process exited although no stop was requested. Its remaining processes would run unseen, so they are ended;
/// then the agent is restarted.
pub(crate) async fn handle_lost_agent(deployment: &Arc<Deployment>, workspace: Uuid, agent: Uuid) {
    let disconnect = |workspace: &mut Workspace| {
        if let Some(agent) = workspace.agent_mut(agent) {
            agent.disconnect();
        }
    };
    deployment.amend_logged(workspace, disconnect).await;
    cleanup::end_processes_of_agent(deployment, workspace, agent).await;
    deployment.tasks.spawn(respawn(Arc::clone(deployment), workspace, agent));
}

/// The delay grows with each restart; the build itself refuses to start an agent that keeps exiting.
async fn respawn(deployment: Arc<Deployment>, workspace: Uuid, agent: Uuid) {
    let n_before = deployment.read(|memory| {
        memory.workspaces.get(&workspace).map_or(0, |workspace| workspace.n_respawns(Utc::now()))
    });
    let delay = deployment.options.limits.respawn.pause(u32::try_from(n_before).unwrap_or(u32::MAX));
    if deployment.stop.run_until_cancelled(tokio::time::sleep(delay)).await.is_some() {
        build::order(&deployment, workspace, |workspace| respawned(workspace, agent)).await;
    }
}

/// None if another build has begun meanwhile.
fn respawned(workspace: &Workspace, agent: Uuid) -> Option<BuildRequest> {
    workspace.agent().filter(|known| known.id == agent)?;
    Some(BuildRequest::after(workspace.latest()?, Transition::Start, Reason::Respawn))
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
