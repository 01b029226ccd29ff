//! A clean stop: stops every running workspace and records it for the next start.

use std::sync::Arc;

use futures_util::future::join_all;
use uuid::Uuid;

use super::build::{self, BuildRequest};
use super::memory::Memory;
use super::record::{Build, Job, Reason, Workspace};
use super::{Deployment, cleanup};
use crate::coder::wire::Transition;

/// Cancels and stops everything concurrently; returns when every process has ended.
pub(crate) async fn shut_down(deployment: &Arc<Deployment>) {
    // An unfinished start is canceled and repeated at the next start of the server.
    let canceled_starts = deployment.adjust(close);
    // Queued builds need not wait for a slot any more.
    deployment.slots.add_permits(deployment.read(|memory| memory.workspaces.len()));
    deployment.builds.close();
    let remembering =
        canceled_starts.iter().map(|workspace| deployment.amend_logged(*workspace, mark_to_resume));
    tokio::join!(join_all(remembering), stop_running(deployment), cleanup::end_orphans(deployment));
    deployment.builds.wait().await;
    // A start may have finished before its cancel.
    stop_running(deployment).await;
    deployment.builds.wait().await;
}

/// No new builds begin from here on, and running starts are canceled. Stops and deletes finish: they are short, and
/// interrupting them gains nothing.
fn close(memory: &mut Memory) -> Vec<Uuid> {
    memory.is_closing = true;
    let mut to_resume = Vec::new();
    for workspace in memory.workspaces.values() {
        let Some(latest) = workspace.latest().filter(|latest| would_run(latest)) else { continue };
        to_resume.push(workspace.id);
        if let Some(cancel) =
            memory.cancels.get(&latest.id).filter(|_| latest.transition == Transition::Start)
        {
            cancel.cancel();
        }
    }
    to_resume
}

/// Whether it would run without this stop of the server.
fn would_run(latest: &Build) -> bool {
    let leads_to_running = latest.transition == Transition::Start || latest.then_start;
    leads_to_running && matches!(latest.job, Job::Pending | Job::Running { .. })
}

fn mark_to_resume(workspace: &mut Workspace) {
    workspace.is_to_resume = true;
    if let Some(latest) = workspace.latest_mut().filter(|latest| latest.transition == Transition::Start) {
        latest.cancel();
    }
}

/// Orders a stop of every workspace with an agent; the orders are saved concurrently.
async fn stop_running(deployment: &Arc<Deployment>) {
    let running = |memory: &Memory| -> Vec<Uuid> {
        let with_agent = memory.workspaces.values().filter(|workspace| workspace.agent().is_some());
        with_agent.map(|workspace| workspace.id).collect()
    };
    let stops = deployment.read(running).into_iter();
    join_all(stops.map(|workspace| build::order(deployment, workspace, stopped))).await;
}

fn stopped(workspace: &mut Workspace) -> Option<BuildRequest> {
    let latest = workspace.latest().filter(|latest| !latest.job.is_active())?;
    let stop = BuildRequest::after(latest, Transition::Stop, Reason::Autostop);
    workspace.is_to_resume = true;
    Some(stop)
}
