//! Takes agents' commits over into the repositories of their callers, where each is seen as branch `fleet/<name>`.
//!
//! An agent's clone is looked at every second, by the state of a few files alone. Only a change starts git.

mod take;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, timeout_at};
use uuid::Uuid;

use take::Taken;
pub(crate) use take::forget;

use super::build::{Branch, Place, answered};
use super::record::{Checkout, Workspace};
use super::{Deployment, LocalError};
use crate::coder::wire::Transition;
use crate::files::beneath::State;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long one branch may take; a larger one is tried again.
const LIMIT: Duration = Duration::from_secs(60);
/// A stop has ten seconds for everything; what is too large for this is taken over behind it.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Behind a delete there is nothing left to take over.
const DELETE_LIMIT: Duration = Duration::from_secs(30);
/// After a first failure, and while the branch is not ours to move; each further failure doubles it.
const RETRY_AFTER: Duration = Duration::from_secs(30);
const MOST_DOUBLINGS: u32 = 7;
/// How many branches are taken over at once.
const N_AT_ONCE: usize = 4;
const STAGE: &str = "Publishing the branch";
/// Where git notes that a branch has moved.
const WATCHED: [&str; 2] = ["packed-refs", "reftable/tables.list"];

/// What is known of each workspace's branch.
#[derive(Debug)]
pub(crate) struct Publishing {
    known: Mutex<HashMap<Uuid, Arc<tokio::sync::Mutex<Known>>>>,
    at_once: Semaphore,
}

#[derive(Debug, Default)]
struct Known {
    /// The files as they were when the branch was taken over last.
    signature: Option<Signature>,
    retry_at: Option<Instant>,
    n_failures: u32,
    /// The kind of problem that was told last, so that it is told once: an agent can vary the words of git at will.
    told: Option<String>,
    /// Is it among those that wait for their turn?
    is_queued: bool,
}

impl Known {
    /// Longer after each failure.
    fn pause(&self) -> Duration {
        RETRY_AFTER * 2_u32.pow(self.n_failures.saturating_sub(1).min(MOST_DOUBLINGS))
    }
}

/// Whether another try could bring more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    Useless,
    Worthwhile,
}

/// The watched files, each that is there.
type Signature = Vec<Option<State>>;

impl Default for Publishing {
    fn default() -> Self {
        Self { known: Mutex::default(), at_once: Semaphore::new(N_AT_ONCE) }
    }
}

impl Publishing {
    fn of(&self, workspace: Uuid) -> Arc<tokio::sync::Mutex<Known>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(workspace).or_default())
    }

    pub(crate) fn drop(&self, workspace: Uuid) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&workspace);
    }
}

/// Follows the branches of all agents until the server stops.
pub(crate) async fn follow(deployment: Arc<Deployment>) {
    let mut changes = deployment.changes();
    let mut every = tokio::time::interval(LOOK_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let only = tokio::select! {
            () = deployment.stop.cancelled() => return,
            _ = every.tick() => None,
            // A report of an agent, at the end of its run for one, is a reason to look at once.
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
    let Ok(_permit) = deployment.publishing.at_once.acquire().await else { return };
    deployment.publishing.of(workspace).lock().await.is_queued = false;
    let still = deployment
        .read(|memory| memory.workspaces.get(&workspace).filter(|known| is_followed(known)).cloned());
    if let Some(workspace) = still {
        publish(&deployment, &workspace, LIMIT).await;
    }
}

/// Takes the branch over before its clone goes. The caller's repository may be locked or full for a moment.
pub(crate) async fn publish_last(deployment: &Arc<Deployment>, workspace: &Workspace) {
    let deadline = Instant::now() + DELETE_LIMIT;
    while publish(deployment, workspace, deadline - Instant::now()).await == Retry::Worthwhile
        && Instant::now() + LOOK_EVERY < deadline
    {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Takes the branch over of a workspace that stops.
pub(crate) async fn publish_stopped(deployment: &Arc<Deployment>, workspace: &Workspace) {
    // What could not be taken over now is tried again while the workspace is stopped.
    let _retry = publish(deployment, workspace, STOP_LIMIT).await;
}

/// Takes the branch over if it has moved. What keeps us from it is told in the log of the newest build.
async fn publish(deployment: &Arc<Deployment>, workspace: &Workspace, limit: Duration) -> Retry {
    let Checkout::Clone { store, .. } = &workspace.checkout else { return Retry::Useless };
    let known = deployment.publishing.of(workspace.id);
    let deadline = Instant::now() + limit;
    let Ok(mut known) = timeout_at(deadline, known.lock()).await else { return Retry::Worthwhile };
    let place = Place::new(&deployment.layout, workspace);
    let taken = timeout_at(deadline, take_moved(deployment, (workspace, &place, store), &known.signature));
    let no_answer = || LocalError::NoAnswer { path: place.repo.clone(), seconds: limit.as_secs() };
    let (signature, problem, retry) = match taken.await.unwrap_or_else(|_| Err(no_answer())) {
        Ok(None) => return Retry::Useless,
        Ok(Some((signature, Taken::Current))) => (Some(signature), None, Retry::Useless),
        Ok(Some((_, Taken::NotOurs(reason)))) => (None, Some(Problem::of_branch(reason)), Retry::Useless),
        Ok(Some((_, Taken::Unreadable(error)))) => (None, Some(Problem::of(&error)), Retry::Useless),
        Err(error) => (None, Some(Problem::of(&error)), Retry::Worthwhile),
    };
    known.signature = signature;
    known.n_failures = if retry == Retry::Worthwhile { known.n_failures + 1 } else { 0 };
    known.retry_at = problem.is_some().then(|| Instant::now() + known.pause());
    if let Some(problem) = problem.as_ref().filter(|problem| known.told.as_ref() != Some(&problem.kind)) {
        tell(deployment, workspace, &problem.text);
    }
    known.told = problem.map(|problem| problem.kind);
    retry
}

/// What keeps a branch from being taken over.
struct Problem {
    /// The same for all problems that differ only in what the agent's repository makes git say.
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

/// None where the branch has not moved.
async fn take_moved(
    deployment: &Arc<Deployment>,
    (workspace, place, store): (&Workspace, &Place, &Path),
    known: &Option<Signature>,
) -> Result<Option<(Signature, Taken)>, LocalError> {
    let signature = signature(place, &Branch::of(workspace)).await?;
    if known.as_ref() == Some(&signature) {
        return Ok(None);
    }
    Ok(Some((signature, take::over(deployment, workspace, store).await?)))
}

fn tell(deployment: &Deployment, workspace: &Workspace, problem: &str) {
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

/// The workspaces whose branch may have moved since it was taken over; one that is being taken over is left out.
async fn changed(deployment: &Arc<Deployment>, only: Option<Uuid>) -> Vec<Uuid> {
    let followed: Vec<(Uuid, Place, Branch)> = deployment.read(|memory| {
        let all = memory.workspaces.values().filter(|workspace| is_followed(workspace));
        let wanted = all.filter(|workspace| only.is_none_or(|only| only == workspace.id));
        let place = |workspace| Place::new(&deployment.layout, workspace);
        wanted.map(|workspace| (workspace.id, place(workspace), Branch::of(workspace))).collect()
    });
    let mut changed = Vec::new();
    for (workspace, place, branch) in followed {
        let known = deployment.publishing.of(workspace);
        let Ok(mut known) = known.try_lock() else { continue };
        if known.is_queued || known.retry_at.is_some_and(|at| at > Instant::now()) {
            continue;
        }
        // One that cannot be looked at takes its turn, is told of there and then waits longer each time.
        let signature = signature(&place, &branch).await.ok();
        if known.signature.is_none() || known.signature != signature {
            known.is_queued = true;
            changed.push(workspace);
        }
    }
    changed
}

/// Until its delete begins; also one that is stopped, whose last commit could not be taken over then.
fn is_followed(workspace: &Workspace) -> bool {
    let is_going = workspace.latest().is_some_and(|latest| latest.transition == Transition::Delete);
    !workspace.is_deleted && !is_going && matches!(workspace.checkout, Checkout::Clone { .. })
}

/// Nothing is opened but directories, and no link is followed: what an agent puts there may be anything.
async fn signature(place: &Place, branch: &Branch) -> Result<Signature, LocalError> {
    let (look_at, branch) = (place.clone(), branch.head.clone());
    let look = move || {
        let git_dir = look_at.repository().and_then(|repo| repo.child(".git")).ok();
        let names = WATCHED.into_iter().chain([branch.as_str()]);
        Ok(names.map(|name| git_dir.as_ref()?.state_of(name)).collect())
    };
    answered(&place.repo, look).await
}
