//! Ends processes that the API does not show: those of lost agents and of workspaces without an agent.

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Deployment;
use super::build::{MARKER, end_limits, marker};
use super::record::Workspace;
use crate::process::{end_tree, marked};

/// Ends the remaining processes of a lost agent.
pub(crate) async fn end_processes_of_agent(deployment: &Deployment, workspace: Uuid, agent: Uuid) {
    end_processes(deployment, workspace, Some(agent)).await;
}

/// Ends processes of workspaces whose newest build has ended and shows no agent, as after a stop that was canceled
/// while queued.
pub(crate) async fn end_orphans(deployment: &Deployment) {
    let marked = match tokio::task::spawn_blocking(|| marked(MARKER)).await {
        Ok(Ok(marked)) => marked,
        Ok(Err(error)) => return tracing::warn!(%error, "cannot look for processes of workspaces"),
        Err(error) => return tracing::warn!(%error, "cannot look for processes of workspaces"),
    };
    if let Some(error) = marked.unread {
        tracing::warn!(%error, "some processes of workspaces may not be found");
    }
    let orphans: Vec<Uuid> = deployment.read(|memory| {
        let without_agent = memory.workspaces.values().filter(|workspace| shows(workspace, None));
        without_agent
            .map(|workspace| workspace.id)
            .filter(|id| marked.values.contains(&id.to_string()))
            .collect()
    });
    join_all(orphans.into_iter().map(|workspace| end_processes(deployment, workspace, None))).await;
}

/// Does nothing if a build has begun: that build ends processes by itself. Builds wait for this, since their
/// processes carry the same marker.
async fn end_processes(deployment: &Deployment, workspace: Uuid, agent: Option<Uuid>) {
    let over = CancellationToken::new();
    let is_ours = deployment.adjust(|memory| {
        let is_ours = memory.workspaces.get(&workspace).is_some_and(|known| shows(known, agent));
        if is_ours {
            memory.clearing.insert(workspace, over.clone());
        }
        is_ours
    });
    if !is_ours {
        return;
    }
    let _over = over.drop_guard();
    if let Err(error) = end_tree(&marker(workspace), end_limits(deployment)).await {
        tracing::warn!(
            workspace.id = %workspace, %error,
            "processes of an ended agent could not be terminated"
        );
    }
    deployment.adjust(|memory| memory.clearing.remove(&workspace));
}

/// Whether the workspace shows exactly this agent, with no running build.
fn shows(workspace: &Workspace, agent: Option<Uuid>) -> bool {
    let is_idle = workspace.latest().is_some_and(|latest| !latest.job.is_active());
    is_idle && workspace.agent().map(|known| known.id) == agent
}
