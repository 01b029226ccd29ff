//! Ends processes that nothing shows: what a lost agent left, and whatever runs in a workspace without an agent.

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Deployment;
use super::build::{END_LIMITS, MARKER, marker};
use super::record::Workspace;
use crate::process::{end_tree, marked};

/// Ends what a lost agent has left.
pub(crate) async fn after_agent(deployment: &Deployment, workspace: Uuid, agent: Uuid) {
    clear(deployment, workspace, Some(agent)).await;
}

/// Ends what runs in workspaces whose newest build is over and shows no agent. A stop that was canceled while it
/// waited leaves such a one.
pub(crate) async fn strays(deployment: &Deployment) {
    let marked = match tokio::task::spawn_blocking(|| marked(MARKER)).await {
        Ok(Ok(marked)) => marked,
        Ok(Err(error)) => return tracing::warn!(%error, "cannot look for processes of workspaces"),
        Err(error) => return tracing::warn!(%error, "cannot look for processes of workspaces"),
    };
    if let Some(error) = marked.unread {
        tracing::warn!(%error, "some processes of workspaces may be overlooked");
    }
    let strays: Vec<Uuid> = deployment.read(|memory| {
        let of_nobody = memory.workspaces.values().filter(|workspace| shows(workspace, None));
        of_nobody.map(|workspace| workspace.id).filter(|id| marked.values.contains(&id.to_string())).collect()
    });
    join_all(strays.into_iter().map(|workspace| clear(deployment, workspace, None))).await;
}

/// Unless a build has begun since: that one ends processes by itself. Builds wait until this is over, for what
/// they start carries the same mark.
async fn clear(deployment: &Deployment, workspace: Uuid, agent: Option<Uuid>) {
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
    if let Err(error) = end_tree(&marker(workspace), END_LIMITS).await {
        tracing::warn!(workspace.id = %workspace, %error, "processes that nothing shows are left");
    }
    deployment.adjust(|memory| memory.clearing.remove(&workspace));
}

/// Whether this is the agent that the workspace shows, with no build under way.
fn shows(workspace: &Workspace, agent: Option<Uuid>) -> bool {
    let is_idle = workspace.latest().is_some_and(|latest| !latest.job.is_active());
    is_idle && workspace.agent().map(|known| known.id) == agent
}
