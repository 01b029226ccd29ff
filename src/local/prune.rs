//! Keeps what is remembered within bounds: old builds, old reports, long deleted workspaces and long logs go.

use std::sync::Arc;

use uuid::Uuid;

use super::build::Place;
use super::memory::Memory;
use super::record::{Agent, Workspace};
use super::{Deployment, LocalError};

/// A real server keeps all; whoever reads history by pages sees this much of it.
const BUILDS_KEPT: usize = 100;
const REPORTS_KEPT: usize = 500;
const DELETED_KEPT: usize = 500;
/// An agent that starts with a longer log begins another one.
const LONGEST_LOG: u64 = 8 * 1024 * 1024;

/// Forgets the oldest builds, and what agents of builds before the newest had reported.
pub(crate) fn trim_builds(workspace: &mut Workspace) {
    let n_before = workspace.builds.len().saturating_sub(BUILDS_KEPT);
    workspace.builds.drain(..n_before);
    let n_old = workspace.builds.len().saturating_sub(1);
    let old = workspace.builds.iter_mut().take(n_old).filter_map(|build| build.agent.as_mut());
    old.for_each(|agent| agent.statuses.clear());
}

/// Forgets the oldest reports.
pub(crate) fn trim_reports(agent: &mut Agent) {
    agent.statuses.truncate(REPORTS_KEPT);
}

/// Forgets the workspaces that were deleted longest ago; to a client they were never there.
pub(crate) async fn forget_deleted(deployment: &Arc<Deployment>) {
    for workspace in deployment.read(too_many_deleted) {
        deployment.forget(workspace).logged().await;
    }
}

/// Puts a log that has grown too long aside, in place of an earlier one.
pub(crate) fn turn_log(place: &Place) -> Result<(), LocalError> {
    let log = place.log();
    match std::fs::metadata(&log) {
        Ok(known) if known.len() > LONGEST_LOG => {
            std::fs::rename(&log, log.with_added_extension("old")).map_err(LocalError::directory(log))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn too_many_deleted(memory: &Memory) -> Vec<Uuid> {
    let deleted = memory.workspaces.values().filter(|workspace| workspace.is_deleted);
    let mut deleted: Vec<_> = deleted.map(|workspace| (last_change(workspace), workspace.id)).collect();
    deleted.sort_unstable();
    let n_too_many = deleted.len().saturating_sub(DELETED_KEPT);
    deleted.into_iter().take(n_too_many).map(|(_, id)| id).collect()
}

fn last_change(workspace: &Workspace) -> chrono::DateTime<chrono::Utc> {
    workspace.latest().map_or(workspace.created_at, |latest| latest.updated_at())
}
