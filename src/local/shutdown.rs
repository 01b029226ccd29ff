//! A clean stop: every running workspace gets its stop build, and is remembered for the next start.

use std::sync::Arc;

use uuid::Uuid;

use super::Deployment;
use super::build::{self, BuildRequest};
use super::memory::Memory;
use super::record::{Build, Job, Reason, Workspace};
use crate::coder::wire::Transition;

/// Ends what is under way and stops what runs; returns when every process has ended.
pub(crate) async fn wind_down(deployment: &Arc<Deployment>) {
    // A start that is not over yet is broken off, and made good at the next start of the server.
    let broken_off = deployment.adjust(close);
    for workspace in broken_off {
        deployment.amend_logged(workspace, remember).await;
    }
    deployment.builds.close();
    deployment.builds.wait().await;
    let running = deployment.read(running);
    // Nobody else builds now: all may stop at once.
    deployment.slots.add_permits(running.len());
    for (workspace, request) in running {
        deployment.amend_logged(workspace, |workspace| workspace.is_to_resume = true).await;
        build::order(deployment, workspace, request).await;
    }
    deployment.builds.wait().await;
}

/// From here on nothing is begun, and starts that are under way are canceled. Stops and deletes come to
/// their end: they are short, and half of one helps nobody.
fn close(memory: &mut Memory) -> Vec<Uuid> {
    memory.is_closing = true;
    let mut to_resume = Vec::new();
    for workspace in memory.workspaces.values() {
        let Some(latest) = workspace.latest().filter(|latest| is_on_its_way(latest)) else { continue };
        to_resume.push(workspace.id);
        if let Some(cancel) =
            memory.cancels.get(&latest.id).filter(|_| latest.transition == Transition::Start)
        {
            cancel.cancel();
        }
    }
    to_resume
}

/// Would it run by itself if the server did not stop?
fn is_on_its_way(latest: &Build) -> bool {
    let leads_to_running = latest.transition == Transition::Start || latest.then_start;
    leads_to_running && matches!(latest.job, Job::Pending | Job::Running { .. })
}

fn remember(workspace: &mut Workspace) {
    workspace.is_to_resume = true;
    if let Some(latest) = workspace.latest_mut().filter(|latest| latest.transition == Transition::Start) {
        latest.cancel();
    }
}

fn running(memory: &Memory) -> Vec<(Uuid, BuildRequest)> {
    let with_agent = memory.workspaces.values().filter(|workspace| workspace.agent().is_some());
    let stops = with_agent.filter_map(|workspace| {
        let latest = workspace.latest()?;
        Some((workspace.id, BuildRequest::after(latest, Transition::Stop, Reason::Autostop)))
    });
    stops.collect()
}
