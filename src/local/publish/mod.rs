//! Transfers agents' commits into the repositories of their callers, as branch `fleet/<name>`.
//!
//! The state of a few files of each clone is polled every second. Only a change starts git.

mod packing;
mod transfer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, timeout_at};
use uuid::Uuid;

use transfer::TransferOutcome;
pub(crate) use transfer::forget;

use super::build::{Branch, WorkspaceDirs, with_deadline};
use super::record::{Checkout, Workspace};
use super::{Deployment, LocalError};
use crate::coder::wire::Transition;
use crate::files::beneath::State;

/// How many branches are transferred at once.
const N_AT_ONCE: usize = 4;
const STAGE: &str = "Publishing the branch";
/// The files in which git records moved branches.
const WATCHED: [&str; 2] = ["packed-refs", "reftable/tables.list"];

/// The publishing state of each workspace's branch.
#[derive(Debug)]
pub(crate) struct Publisher {
    known: Mutex<HashMap<Uuid, Arc<tokio::sync::Mutex<BranchState>>>>,
    at_once: Semaphore,
}

#[derive(Debug, Default)]
struct BranchState {
    /// The files as of the last transfer.
    signature: Option<Signature>,
    retry_at: Option<Instant>,
    n_failures: u32,
    /// The kind of the last logged problem, so that it is logged once: an agent can vary git's words at will.
    last_problem: Option<String>,
    /// Whether it is queued for a transfer.
    is_queued: bool,
}

/// Whether a retry can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    Useless,
    Worthwhile,
}

/// The state of each watched file; none if it is missing.
type Signature = Vec<Option<State>>;

impl Default for Publisher {
    fn default() -> Self {
        Self { known: Mutex::default(), at_once: Semaphore::new(N_AT_ONCE) }
    }
}

impl Publisher {
    fn of(&self, workspace: Uuid) -> Arc<tokio::sync::Mutex<BranchState>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(workspace).or_default())
    }

    pub(crate) fn drop(&self, workspace: Uuid) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&workspace);
    }
}

/// Publishes the branches of all agents until the server stops.
pub(crate) async fn follow(deployment: Arc<Deployment>) {
    let mut changes = deployment.changes();
    let mut every = tokio::time::interval(deployment.options.limits.publish_interval);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let only = tokio::select! {
            () = deployment.stop.cancelled() => return,
            _ = every.tick() => None,
            // A report of an agent, such as at the end of its run, triggers a check at once.
            changed = changes.recv() => match changed {
                Ok(workspace) => Some(workspace),
                Err(RecvError::Lagged(_)) => None,
                Err(RecvError::Closed) => return,
            },
        };
        for workspace in changed(&deployment, only).await {
            let publishing = publish_in_turn(Arc::clone(&deployment), workspace);
            deployment.tasks.spawn(deployment.stop.clone().run_until_cancelled_owned(publishing));
        }
    }
}

async fn publish_in_turn(deployment: Arc<Deployment>, workspace: Uuid) {
    let Ok(_permit) = deployment.publisher.at_once.acquire().await else { return };
    deployment.publisher.of(workspace).lock().await.is_queued = false;
    let still = deployment
        .read(|memory| memory.workspaces.get(&workspace).filter(|known| is_followed(known)).cloned());
    if let Some(workspace) = still {
        publish(&deployment, &workspace, deployment.options.limits.publish).await;
    }
}

/// Transfers the branch before its clone is deleted. Retries, since the caller's repository may be locked or full
/// for a moment.
pub(crate) async fn publish_last(deployment: &Arc<Deployment>, workspace: &Workspace) {
    let limits = &deployment.options.limits;
    let deadline = Instant::now() + limits.publish_last;
    while publish(deployment, workspace, deadline - Instant::now()).await == Retry::Worthwhile
        && Instant::now() + limits.publish_interval < deadline
    {
        tokio::time::sleep(limits.publish_interval).await;
    }
}

/// Transfers the branch of a workspace that stops.
pub(crate) async fn publish_stopped(deployment: &Arc<Deployment>, workspace: &Workspace) {
    // A failed transfer is retried while the workspace is stopped.
    let _retry = publish(deployment, workspace, deployment.options.limits.publish_stopped).await;
}

/// Transfers the branch if it has moved. Problems are logged in the newest build.
async fn publish(deployment: &Arc<Deployment>, workspace: &Workspace, limit: Duration) -> Retry {
    let Checkout::Clone { store, .. } = &workspace.checkout else { return Retry::Useless };
    let known = deployment.publisher.of(workspace.id);
    let deadline = Instant::now() + limit;
    let Ok(mut known) = timeout_at(deadline, known.lock()).await else { return Retry::Worthwhile };
    let dirs = WorkspaceDirs::new(&deployment.layout, workspace);
    let taken = timeout_at(deadline, transfer_moved(deployment, (workspace, &dirs, store), &known.signature));
    let no_answer = || LocalError::NoAnswer { path: dirs.repo.clone(), seconds: limit.as_secs() };
    let (signature, problem, retry) = match taken.await.unwrap_or_else(|_| Err(no_answer())) {
        Ok(None) => return Retry::Useless,
        Ok(Some((signature, TransferOutcome::Current))) => (Some(signature), None, Retry::Useless),
        Ok(Some((_, TransferOutcome::NotOurs(reason)))) => {
            (None, Some(Problem::of_branch(reason)), Retry::Useless)
        }
        Ok(Some((_, TransferOutcome::Unreadable(error)))) => {
            (None, Some(Problem::of(&error)), Retry::Useless)
        }
        Err(error) => (None, Some(Problem::of(&error)), Retry::Worthwhile),
    };
    known.signature = signature;
    known.n_failures = if retry == Retry::Worthwhile { known.n_failures + 1 } else { 0 };
    let pause = deployment.options.limits.publish_retry.pause(known.n_failures.saturating_sub(1));
    known.retry_at = problem.is_some().then(|| Instant::now() + pause);
    if let Some(problem) =
        problem.as_ref().filter(|problem| known.last_problem.as_ref() != Some(&problem.kind))
    {
        log_problem(deployment, workspace, &problem.text);
    }
    known.last_problem = problem.map(|problem| problem.kind);
    retry
}

/// What keeps a branch from being transferred.
struct Problem {
    /// The same for problems that differ only in output caused by the agent's repository.
    kind: String,
    text: String,
}

impl Problem {
    fn of_branch(reason: String) -> Self {
        Self { kind: reason.clone(), text: reason }
    }

    fn of(error: &LocalError) -> Self {
        let kind = match error {
            LocalError::GitRefused { doing, .. } => doing.clone(),
            other => other.to_string(),
        };
        Self { kind, text: error.chain() }
    }
}

/// None if the branch has not moved.
async fn transfer_moved(
    deployment: &Arc<Deployment>,
    (workspace, dirs, store): (&Workspace, &WorkspaceDirs, &Path),
    known: &Option<Signature>,
) -> Result<Option<(Signature, TransferOutcome)>, LocalError> {
    let signature = signature(dirs, &Branch::of(workspace)).await?;
    if known.as_ref() == Some(&signature) {
        return Ok(None);
    }
    Ok(Some((signature, transfer::transfer_branch(deployment, workspace, store).await?)))
}

fn log_problem(deployment: &Deployment, workspace: &Workspace, problem: &str) {
    tracing::warn!(workspace.name = workspace.name, problem, "a branch was not published");
    let amended = deployment.amend(workspace.id, |workspace| {
        if let Some(build) = workspace.latest_mut() {
            build.log("warn", STAGE, problem);
        }
    });
    if let Some(saving) = amended {
        saving.unawaited();
    }
}

/// The workspaces whose branch may have moved since the last transfer, without those being transferred.
async fn changed(deployment: &Arc<Deployment>, only: Option<Uuid>) -> Vec<Uuid> {
    let followed: Vec<(Uuid, WorkspaceDirs, Branch)> = deployment.read(|memory| {
        let all = memory.workspaces.values().filter(|workspace| is_followed(workspace));
        let wanted = all.filter(|workspace| only.is_none_or(|only| only == workspace.id));
        let dirs = |workspace| WorkspaceDirs::new(&deployment.layout, workspace);
        wanted.map(|workspace| (workspace.id, dirs(workspace), Branch::of(workspace))).collect()
    });
    let mut changed = Vec::new();
    for (workspace, dirs, branch) in followed {
        let known = deployment.publisher.of(workspace);
        let Ok(mut known) = known.try_lock() else { continue };
        if known.is_queued || known.retry_at.is_some_and(|at| at > Instant::now()) {
            continue;
        }
        // A failed check leads to a transfer, which reports the problem and then backs off.
        let signature = signature(&dirs, &branch).await.ok();
        if known.signature.is_none() || known.signature != signature {
            known.is_queued = true;
            changed.push(workspace);
        }
    }
    changed
}

/// Until its delete begins; also while stopped, since the last transfer may have failed.
fn is_followed(workspace: &Workspace) -> bool {
    let is_going = workspace.latest().is_some_and(|latest| latest.transition == Transition::Delete);
    !workspace.is_deleted && !is_going && matches!(workspace.checkout, Checkout::Clone { .. })
}

/// Opens only directories and follows no links: an agent may have put anything there.
async fn signature(dirs: &WorkspaceDirs, branch: &Branch) -> Result<Signature, LocalError> {
    let (look_at, branch) = (dirs.clone(), branch.head.clone());
    let look = move || {
        let git_dir = look_at.repository().and_then(|repo| repo.child(".git")).ok();
        let names = WATCHED.into_iter().chain([branch.as_str()]);
        Ok(names.map(|name| git_dir.as_ref()?.state_of(name)).collect())
    };
    with_deadline(&dirs.repo, look).await
}
