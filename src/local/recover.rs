//! After a start: what a crash cut short is ended and cleaned up, what still runs is found again.

use std::sync::Arc;

use futures_util::future::join_all;
use uuid::Uuid;

use super::build::{self, BuildRequest};
use super::process::is_alive;
use super::record::{Agent, Job, Reason, Workspace};
use super::{Deployment, clear, follow};
use crate::coder::wire::Transition;

/// Brings every workspace into a state that is true; safe to repeat.
pub(crate) async fn recover(deployment: &Arc<Deployment>) {
    let known: Vec<Workspace> = deployment.read(|memory| memory.workspaces.values().cloned().collect());
    let live = known.iter().filter(|workspace| !workspace.is_deleted);
    join_all(live.map(|workspace| bring_back(deployment, workspace))).await;
    clear::strays(deployment).await;
}

async fn bring_back(deployment: &Arc<Deployment>, workspace: &Workspace) {
    let Some(latest) = workspace.latest() else { return };
    match (&latest.job, workspace.agent()) {
        // Nothing had begun: it takes its place in the queue again.
        (Job::Pending, _) => relaunch(deployment, workspace.id, latest.id).await,
        (Job::Running { .. } | Job::Canceling { .. }, _) => build::break_off(deployment, workspace).await,
        (Job::Ended { .. }, Some(agent)) => find_again(deployment, workspace.id, agent).await,
        (Job::Ended { .. }, None) => {}
    }
    build::order(deployment, workspace.id, resumed).await;
}

/// A stop that a clean stop of the server had ordered goes on to what was to follow it.
async fn relaunch(deployment: &Arc<Deployment>, workspace: Uuid, build: Uuid) {
    let amended = deployment.change(workspace, |memory| {
        memory.cancels.insert(build, Default::default());
        let known = memory.workspaces.get_mut(&workspace).ok_or(())?;
        let is_to_resume = known.is_to_resume;
        let latest = known.latest_mut().ok_or(())?;
        latest.then_start |= is_to_resume && latest.transition == Transition::Stop;
        Ok::<_, ()>(())
    });
    if let Ok(((), saving)) = amended {
        saving.logged().await;
        build::launch(deployment, workspace, build);
    }
}

async fn find_again(deployment: &Arc<Deployment>, workspace: Uuid, agent: &Agent) {
    match agent.process.as_ref().map(is_alive) {
        Some(Ok(false)) | None => lose(deployment, workspace, agent.id).await,
        // It reports, with its token, to a port that may be a stranger's by now.
        Some(Ok(true) | Err(_)) if agent.port != deployment.site.port() => {
            build::order(deployment, workspace, restarted).await;
        }
        // That we cannot look says nothing: whoever follows it looks again.
        Some(Ok(true) | Err(_)) => follow::begin(deployment, workspace),
    }
}

async fn lose(deployment: &Arc<Deployment>, workspace: Uuid, agent: Uuid) {
    deployment
        .amend_logged(workspace, |workspace| {
            if let Some(agent) = workspace.agent_mut(agent) {
                agent.disconnect();
            }
        })
        .await;
    clear::after_agent(deployment, workspace, agent).await;
}

/// The stop to which a start belongs, also when the server dies in between.
fn restarted(workspace: &mut Workspace) -> Option<BuildRequest> {
    let stop = BuildRequest::after(workspace.latest()?, Transition::Stop, Reason::Autostop);
    workspace.is_to_resume = true;
    Some(BuildRequest { then_start: true, ..stop })
}

/// The start of what the server had stopped.
fn resumed(workspace: &mut Workspace) -> Option<BuildRequest> {
    let latest = workspace.latest().filter(|latest| workspace.is_to_resume && !latest.job.is_active())?;
    Some(BuildRequest::after(latest, Transition::Start, Reason::Autostart))
}
