//! Reads the agents' metadata files periodically, so that lists are answered from memory.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::build::WorkspaceDirs;
use super::memory::{Memory, MetadataItem};
use super::record::Workspace;
use super::{Deployment, agent_files};
use crate::coder::wire::Transition;

/// One agent's metadata directory and the values read last.
struct MetadataSource {
    workspace: Uuid,
    dirs: WorkspaceDirs,
    items: Vec<MetadataItem>,
}

pub(crate) async fn collect(deployment: Arc<Deployment>) {
    loop {
        let known = running(&deployment);
        let read = tokio::task::spawn_blocking(move || known.iter().filter_map(changed).collect::<Vec<_>>());
        for (workspace, items) in read.await.unwrap_or_default() {
            deployment.adjust(|memory| memory.metadata.insert(workspace, items));
            deployment.announce(workspace);
        }
        tokio::select! {
            () = tokio::time::sleep(deployment.options.limits.metadata_interval) => {}
            () = deployment.stop.cancelled() => return,
        }
    }
}

/// Reads the files of one agent now, for a client that asks for its metadata.
pub(crate) async fn collect_now(deployment: &Deployment, workspace: Uuid) {
    let known = deployment.read(|memory| {
        let workspace = memory.workspaces.get(&workspace).filter(is_started)?;
        Some(MetadataSource::of(deployment, workspace, &memory.metadata))
    });
    let Some(known) = known else { return };
    let read = tokio::task::spawn_blocking(move || changed(&known)).await;
    if let Some((workspace, items)) = read.ok().flatten() {
        deployment.adjust(|memory| memory.metadata.insert(workspace, items));
        deployment.announce(workspace);
    }
}

/// A stopped workspace loses its values with its agent; those of a lost agent stay.
fn running(deployment: &Deployment) -> Vec<MetadataSource> {
    deployment.adjust(|memory| {
        let Memory { workspaces, metadata, .. } = memory;
        metadata.retain(|id, _| workspaces.get(id).filter(is_started).is_some());
        let started = workspaces.values().filter(is_started);
        started.map(|workspace| MetadataSource::of(deployment, workspace, metadata)).collect()
    })
}

impl MetadataSource {
    fn of(
        deployment: &Deployment,
        workspace: &Workspace,
        metadata: &HashMap<Uuid, Vec<MetadataItem>>,
    ) -> Self {
        Self {
            workspace: workspace.id,
            dirs: WorkspaceDirs::new(&deployment.layout, workspace),
            items: metadata.get(&workspace.id).cloned().unwrap_or_default(),
        }
    }
}

fn is_started(workspace: &&Workspace) -> bool {
    workspace.latest().is_some_and(|latest| latest.transition == Transition::Start)
}

fn changed(known: &MetadataSource) -> Option<(Uuid, Vec<MetadataItem>)> {
    let items = agent_files::read_metadata(&known.dirs, &known.items);
    (items != known.items).then_some((known.workspace, items))
}
