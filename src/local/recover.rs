//! Recovers after a start: repeats interrupted builds, finds running agents again, restarts dead ones.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::build::{self, BuildRequest, SETTING_UP};
use super::deployment_info::is_out_of_reach;
use super::record::{Agent, Job, Reason, Workspace};
use super::{Deployment, cleanup, follow};
use crate::coder::wire::Transition;
use crate::process::is_alive;

const REPEATED: &str = "the server ended during this build; it is repeated";

/// Brings every workspace into a consistent state; safe to repeat.
pub(crate) async fn recover(deployment: &Arc<Deployment>) {
    let known: Vec<Workspace> = deployment.read(|memory| memory.workspaces.values().cloned().collect());
    let live = known.iter().filter(|workspace| !workspace.is_deleted);
    join_all(live.map(|workspace| recover_workspace(deployment, workspace))).await;
    cleanup::end_orphans(deployment).await;
}

async fn recover_workspace(deployment: &Arc<Deployment>, workspace: &Workspace) {
    let Some(latest) = workspace.latest() else { return };
    match (&latest.job, workspace.agent()) {
        (Job::Pending | Job::Running { .. } | Job::Canceling { .. }, _) => {
            relaunch(deployment, workspace.id, latest.id).await;
        }
        (Job::Ended { .. }, Some(agent)) => adopt_agent(deployment, workspace.id, agent).await,
        (Job::Ended { .. }, None) => {}
    }
    build::order(deployment, workspace.id, build::follow_up).await;
}

/// Queues the build again and repeats it from its beginning, unless it was being canceled. A stop ordered by a
/// clean stop of the server continues with its follow-up.
async fn relaunch(deployment: &Arc<Deployment>, workspace: Uuid, build: Uuid) {
    let amended = deployment.change(workspace, |memory| {
        let cancel = CancellationToken::new();
        memory.cancels.insert(build, cancel.clone());
        let known = memory.workspaces.get_mut(&workspace).ok_or(())?;
        let is_to_resume = known.is_to_resume;
        let latest = known.latest_mut().ok_or(())?;
        latest.then_start |= is_to_resume && latest.transition == Transition::Stop;
        match latest.job {
            Job::Running { .. } => latest.log("info", SETTING_UP, REPEATED),
            Job::Canceling { .. } => cancel.cancel(),
            Job::Pending | Job::Ended { .. } => {}
        }
        Ok::<_, ()>(())
    });
    if let Ok(((), saving)) = amended {
        saving.logged().await;
        build::launch(deployment, workspace, build);
    }
}

async fn adopt_agent(deployment: &Arc<Deployment>, workspace: Uuid, agent: &Agent) {
    match agent.process.as_ref().map(is_alive) {
        Some(Ok(false)) | None => follow::handle_lost_agent(deployment, workspace, agent.id).await,
        // It reports, with its token, to a port that another program may have by now, or listens where it may have
        // replaced the socket.
        Some(Ok(true) | Err(_))
            if agent.port != deployment.info.port() || !is_out_of_reach(&agent.socket) =>
        {
            build::order(deployment, workspace, restarted).await;
        }
        // A failed look tells nothing; the supervisor looks again.
        Some(Ok(true) | Err(_)) => follow::begin(deployment, workspace),
    }
}

/// The stop to which a start belongs, also if the server died in between.
fn restarted(workspace: &mut Workspace) -> Option<BuildRequest> {
    let stop = BuildRequest::after(workspace.latest()?, Transition::Stop, Reason::Autostop);
    workspace.is_to_resume = true;
    Some(BuildRequest { then_start: true, ..stop })
}
