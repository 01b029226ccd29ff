//! Builds: queued for a slot, carried out step by step, and cleaned up when they fail.

mod address;
mod borrow;
mod branch;
mod branch_start;
mod checkout;
mod copied_settings;
mod delete;
mod git;
mod pull_request;
pub(super) mod refs;
mod start;
mod stop;
mod work;
mod workspace_dirs;
mod worktree;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use branch::Branch;
pub(crate) use git::{Git, finished, not_run};
pub(crate) use work::end_limits;
pub(crate) use workspace_dirs::{MOVING, ORPHAN, WorkspaceDirs, adopt, sweep};

use super::memory::Memory;
use super::record::{Build, Job, Reason, Workspace};
use super::{Deployment, LocalError};
use crate::coder::wire::{ParameterValue, Transition};
use crate::process::Marker;

pub(crate) const SETTING_UP: &str = "Setting up";
/// How long resolving a path of a caller or an agent may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// The environment variable that marks the processes of workspaces.
pub(crate) const MARKER: &str = "FLEET_WORKSPACE";

/// A validated request for a build.
#[derive(Debug, Clone)]
pub(crate) struct BuildRequest {
    pub(crate) transition: Transition,
    pub(crate) reason: Reason,
    pub(crate) version_id: Uuid,
    pub(crate) preset_id: Option<Uuid>,
    pub(crate) values: Vec<ParameterValue>,
    pub(crate) then_start: bool,
    pub(crate) is_orphan: bool,
}

impl BuildRequest {
    /// As the initiator asks for it, without parameters.
    pub(crate) fn new(transition: Transition, version_id: Uuid) -> Self {
        Self {
            transition,
            reason: Reason::Initiator,
            version_id,
            preset_id: None,
            values: Vec::new(),
            then_start: false,
            is_orphan: false,
        }
    }

    /// A further build of the same workspace, with another transition.
    pub(crate) fn after(build: &Build, transition: Transition, reason: Reason) -> Self {
        Self {
            transition,
            reason,
            version_id: build.version_id,
            preset_id: build.preset_id,
            values: build.values.clone(),
            then_start: false,
            is_orphan: false,
        }
    }

    pub(crate) fn into_build(self, number: i64) -> Build {
        Build {
            id: Uuid::new_v4(),
            job_id: Uuid::new_v4(),
            number,
            transition: self.transition,
            reason: self.reason,
            version_id: self.version_id,
            preset_id: self.preset_id,
            values: self.values,
            created_at: Utc::now(),
            job: Job::Pending,
            then_start: self.then_start,
            is_orphan: self.is_orphan,
            has_made_checkout: false,
            logs: Vec::new(),
            agent: None,
        }
    }
}

/// The marker in the environment of every process of a workspace; it identifies detached processes too.
pub(crate) fn marker(workspace: Uuid) -> Marker {
    Marker { key: MARKER.to_owned(), value: workspace.to_string() }
}

/// Appends a build to the workspace's builds; it does not run before `launch`.
pub(crate) fn push(memory: &mut Memory, workspace: Uuid, request: BuildRequest) -> Option<Uuid> {
    let record = memory.workspaces.get_mut(&workspace)?;
    // A requested build overrides the state before the server's stop; a stop by the server itself does not.
    record.is_to_resume &= request.reason == Reason::Autostop;
    let number = record.latest().map_or(1, |latest| latest.number + 1);
    let build = request.into_build(number);
    let id = build.id;
    record.builds.push(build);
    memory.cancels.insert(id, CancellationToken::new());
    Some(id)
}

/// Removes a build that could not be saved and was never launched.
pub(crate) fn withdraw(deployment: &Deployment, workspace: Uuid, build: Uuid) {
    deployment.adjust(|memory| {
        memory.cancels.remove(&build);
        if let Some(record) = memory.workspaces.get_mut(&workspace) {
            record.builds.retain(|known| known.id != build);
        }
    });
}

/// Queues a saved build for its slot and runs it.
pub(crate) fn launch(deployment: &Arc<Deployment>, workspace: Uuid, build: Uuid) {
    let work = work::run(Arc::clone(deployment), workspace, build);
    deployment.builds.spawn(work);
}

/// The start that follows automatically: after a stop with a follow-up, or after the server's own stop.
pub(crate) fn follow_up(workspace: &mut Workspace) -> Option<BuildRequest> {
    let latest = workspace.latest().filter(|latest| !latest.job.is_active())?;
    let is_due = latest.then_start && latest.job.has_succeeded();
    // A start after the server's own stop is the server's own too.
    let reason = match latest.reason {
        Reason::Initiator if is_due => Reason::Initiator,
        Reason::Initiator | Reason::Autostart | Reason::Autostop | Reason::Respawn => Reason::Autostart,
    };
    (is_due || workspace.is_to_resume).then(|| BuildRequest::after(latest, Transition::Start, reason))
}

/// Adds, saves and launches a build of the server's own if the workspace now wants it; never while the server
/// stops.
pub(crate) async fn order(
    deployment: &Arc<Deployment>,
    workspace: Uuid,
    wanted: impl FnOnce(&mut Workspace) -> Option<BuildRequest>,
) {
    let pushed = deployment.change(workspace, |memory| {
        let known = memory.workspaces.get_mut(&workspace).ok_or(())?;
        let request = wanted(known).ok_or(())?;
        if memory.is_closing && request.transition == Transition::Start {
            return Err(());
        }
        push(memory, workspace, request).ok_or(())
    });
    if let Ok((build, saving)) = pushed {
        saving.logged().await;
        launch(deployment, workspace, build);
    }
}

/// Runs file operations off the threads that answer requests.
pub(crate) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, LocalError> + Send + 'static,
) -> Result<T, LocalError> {
    let failed = |error| LocalError::Git(std::io::Error::other(error));
    tokio::task::spawn_blocking(act).await.map_err(failed)?
}

/// Like `blocking`, with a deadline: a mount under a path of a caller or an agent may never answer.
pub(crate) async fn with_deadline<T: Send + 'static>(
    path: &Path,
    act: impl FnOnce() -> Result<T, LocalError> + Send + 'static,
) -> Result<T, LocalError> {
    let no_answer = |_| LocalError::NoAnswer { path: path.to_owned(), seconds: ANSWER_LIMIT.as_secs() };
    tokio::time::timeout(ANSWER_LIMIT, blocking(act)).await.map_err(no_answer)?
}
