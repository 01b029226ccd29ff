//! After a start: what a crash cut short is ended and cleaned up, what still runs is found again.

use std::sync::Arc;

use super::build::{self, BuildRequest, END_LIMITS, Place, marker};
use super::process::{end_tree, is_alive};
use super::record::{Agent, Checkout, Job, Outcome, Reason, Workspace};
use super::{Deployment, LocalError, follow};
use crate::coder::wire::Transition;

/// Brings every workspace into a state that is true; safe to repeat.
pub(crate) async fn recover(deployment: &Arc<Deployment>) {
    let known: Vec<Workspace> = deployment.read(|memory| memory.workspaces.values().cloned().collect());
    for workspace in known.iter().filter(|workspace| !workspace.is_deleted) {
        let Some(latest) = workspace.latest() else { continue };
        match (&latest.job, workspace.agent()) {
            // Nothing had begun: it takes its place in the queue again.
            (Job::Pending, _) => relaunch(deployment, workspace),
            (Job::Running { .. } | Job::Canceling { .. }, _) => break_off(deployment, workspace).await,
            (Job::Ended { .. }, Some(agent)) => find_again(deployment, workspace, agent).await,
            (Job::Ended { .. }, None) => {}
        }
        if workspace.is_to_resume {
            resume(deployment, workspace).await;
        }
    }
}

fn relaunch(deployment: &Arc<Deployment>, workspace: &Workspace) {
    if let Some(latest) = workspace.latest() {
        deployment.adjust(|memory| memory.cancels.insert(latest.id, Default::default()));
        build::launch(deployment, workspace.id, latest.id);
    }
}

/// A build that was under way has failed, or is canceled if that had been asked; its processes end, and what
/// a first start had half made goes.
async fn break_off(deployment: &Arc<Deployment>, workspace: &Workspace) {
    let place = Place::new(&deployment.layout, &workspace.name);
    if let Err(error) = end_tree(&marker(workspace.id), END_LIMITS).await {
        tracing::warn!(workspace.name = workspace.name, %error, "processes of a build that broke off are left");
    }
    if workspace.checkout == Checkout::None
        && place.is_owned_by(workspace.id)
        && let Err(error) = place.remove_now()
    {
        tracing::warn!(workspace.name = workspace.name, error = error.chain(), "half a workspace is left");
    }
    let error = LocalError::Interrupted.to_string();
    let ended = deployment.amend(workspace.id, |workspace| {
        let Some(latest) = workspace.latest_mut() else { return };
        let is_canceled = matches!(latest.job, Job::Canceling { .. });
        latest.agent = None;
        latest.log("error", build::SETTING_UP, &error);
        latest.end(if is_canceled { Outcome::Canceled } else { Outcome::Failed { error } });
    });
    if let Some(saving) = ended {
        saving.logged().await;
    }
}

async fn find_again(deployment: &Arc<Deployment>, workspace: &Workspace, agent: &Agent) {
    if agent.process.as_ref().is_some_and(is_alive) {
        follow::begin(deployment, workspace.id);
        return;
    }
    let id = agent.id;
    deployment
        .amend_logged(workspace.id, |workspace| {
            if let Some(agent) = workspace.agent_mut(id) {
                agent.disconnect();
            }
        })
        .await;
    follow::clear(deployment, workspace.id, id).await;
}

/// A clean stop of the server had stopped it.
async fn resume(deployment: &Arc<Deployment>, workspace: &Workspace) {
    deployment.amend_logged(workspace.id, |workspace| workspace.is_to_resume = false).await;
    let is_idle = |workspace: &Workspace| workspace.latest().is_some_and(|latest| !latest.job.is_active());
    let request = deployment.read(|memory| {
        let now = memory.workspaces.get(&workspace.id).filter(|now| is_idle(now))?;
        Some(BuildRequest::after(now.latest()?, Transition::Start, Reason::Autostart))
    });
    if let Some(request) = request {
        build::order(deployment, workspace.id, request).await;
    }
}
