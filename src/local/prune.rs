//! Bounds the recorded history: removes old builds, old reports and long deleted workspaces.

use std::sync::Arc;

use uuid::Uuid;

use super::Deployment;
use super::memory::Memory;
use super::record::{Agent, Workspace};

/// A real server keeps all builds; clients that page through history see this many.
const BUILDS_KEPT: usize = 100;
/// Every response about a workspace contains all reports: a list of a hundred workspaces with the longest reports
/// must still fit.
const REPORTS_KEPT: usize = 100;
const DELETED_KEPT: usize = 500;

/// Removes the oldest builds, and the reports of agents before the newest build.
pub(crate) fn trim_builds(workspace: &mut Workspace) {
    let n_before = workspace.builds.len().saturating_sub(BUILDS_KEPT);
    workspace.builds.drain(..n_before);
    let n_old = workspace.builds.len().saturating_sub(1);
    let old = workspace.builds.iter_mut().take(n_old).filter_map(|build| build.agent.as_mut());
    old.for_each(|agent| agent.statuses.clear());
}

/// Removes the oldest reports.
pub(crate) fn trim_reports(agent: &mut Agent) {
    agent.statuses.truncate(REPORTS_KEPT);
}

/// Removes the workspaces that were deleted longest ago; clients then get 404 instead of 410.
pub(crate) async fn forget_deleted(deployment: &Arc<Deployment>) {
    for workspace in deployment.read(too_many_deleted) {
        deployment.forget(workspace).logged().await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coder::wire::Transition;
    use crate::local::build::BuildRequest;
    use crate::local::deployment_info::DeploymentRecord;
    use crate::local::enclosure::Level;
    use crate::local::record::{Outcome, TemplateName};

    fn workspace(number: u128, n_builds: i64) -> Workspace {
        let request = BuildRequest::new(Transition::Delete, Uuid::nil());
        let mut builds: Vec<_> = (1..=n_builds).map(|build| request.clone().into_build(build)).collect();
        builds.iter_mut().for_each(|build| build.end(Outcome::Succeeded));
        let template = TemplateName { id: Uuid::nil(), name: String::new(), display_name: String::new() };
        let workspace = Workspace::new(Uuid::from_u128(number), format!("agent-{number}"), template);
        Workspace { is_deleted: true, builds, ..workspace }
    }

    #[test]
    fn the_newest_builds_stay_with_their_numbers() {
        let mut workspace = workspace(1, 250);
        trim_builds(&mut workspace);
        let numbers: Vec<i64> = workspace.builds.iter().map(|build| build.number).collect();
        assert_eq!(numbers, (151..=250).collect::<Vec<_>>());
    }

    #[test]
    fn of_the_deleted_the_oldest_go_and_the_living_stay() {
        let n_deleted = DELETED_KEPT as u128 + 2;
        let mut workspaces: Vec<Workspace> = (1..=n_deleted).map(|number| workspace(number, 1)).collect();
        let mut living = workspace(0, 1);
        living.is_deleted = false;
        workspaces.push(living);
        let kept = DeploymentRecord {
            deployment_id: Uuid::nil(),
            created_at: chrono::DateTime::UNIX_EPOCH,
            port: None,
            isolation: Level::None,
        };
        let gone = too_many_deleted(&Memory::new(kept, workspaces));
        assert_eq!(gone, [Uuid::from_u128(1), Uuid::from_u128(2)]);
    }
}
