//! Runs one build from its slot to its end: cancelable steps, the outcome, and the clean-up.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{SETTING_UP, WorkspaceDirs, checkout, delete, follow_up, marker, order, start, stop};
use crate::coder::wire::Transition;
use crate::hooks::point;
use crate::local::record::{Build, Checkout, Job, Outcome, Workspace};
use crate::local::writer::PendingWrite;
use crate::local::{Deployment, LocalError, LocalLimits, cleanup, follow, prune};
use crate::process::{EndLimits, end_tree};

/// A running build, with the workspace as it was when the build began.
pub(super) struct Work {
    pub(super) deployment: Arc<Deployment>,
    pub(super) workspace: Workspace,
    pub(super) build: Build,
    pub(super) dirs: WorkspaceDirs,
    cancel: CancellationToken,
    deadline: Instant,
    /// Locked by sections that neither a cancel nor the deadline may interrupt.
    section: Mutex<()>,
}

/// TERM, then KILL.
pub(crate) fn end_limits(deployment: &Deployment) -> EndLimits {
    let LocalLimits { terminate, kill, .. } = deployment.options.limits;
    EndLimits { term: terminate, kill }
}

pub(super) async fn run(deployment: Arc<Deployment>, workspace: Uuid, build: Uuid) {
    let cancel = deployment.adjust(|memory| memory.cancels.get(&build).cloned()).unwrap_or_default();
    let slot = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        slot = deployment.slots.acquire() => slot.ok(),
    };
    if let Some((work, saving)) = Work::begin(&deployment, workspace, build, cancel) {
        // The start of the work is recorded first, so that a cancel after a crash cleans up what it has made.
        let outcome = match (saving.done().await, work.build.transition) {
            (Ok(()), _) => work.execute().await,
            // A stop is repeatable, and must also work on a full disk.
            (Err(_), Transition::Stop) => work.execute().await,
            (Err(error), Transition::Start | Transition::Delete) => Err(error),
        };
        work.conclude(outcome).await;
        drop(slot);
        work.start_follow_up().await;
    } else {
        // A stop that was canceled while queued leaves an agent that the API does not show.
        cleanup::end_orphans(&deployment).await;
    }
    deployment.adjust(|memory| memory.cancels.remove(&build));
}

impl Work {
    fn new(
        deployment: &Arc<Deployment>,
        workspace: Workspace,
        build: Build,
        cancel: CancellationToken,
    ) -> Self {
        let deadline = Instant::now() + deployment.options.build_deadline;
        let dirs = WorkspaceDirs::new(&deployment.layout, &workspace);
        let (deployment, section) = (Arc::clone(deployment), Mutex::default());
        Self { deployment, workspace, build, dirs, cancel, deadline, section }
    }

    /// None if the build was canceled before it began. A build interrupted by a kill restarts from its beginning; a
    /// build that was being canceled is cleaned up.
    fn begin(
        deployment: &Arc<Deployment>,
        workspace: Uuid,
        build: Uuid,
        cancel: CancellationToken,
    ) -> Option<(Self, PendingWrite)> {
        let begun = deployment.change(workspace, |memory| {
            let record = memory.workspaces.get_mut(&workspace).ok_or(())?;
            let latest = record.build_mut(build).ok_or(())?;
            let is_unwanted = latest.job == Job::Pending && cancel.is_cancelled();
            if is_unwanted || !latest.begin() {
                return Err(());
            }
            latest.log("info", SETTING_UP, "");
            Ok::<_, ()>((latest.clone(), record.clone()))
        });
        let ((build, workspace), saving) = begun.ok()?;
        Some((Self::new(deployment, workspace, build, cancel), saving))
    }

    async fn execute(&self) -> Result<(), LocalError> {
        match self.build.transition {
            Transition::Start => start::start(self).await,
            Transition::Stop => stop::stop(self).await,
            Transition::Delete => delete::delete(self).await,
        }
    }

    /// A short step that is not begun after a cancel and not interrupted once it has begun.
    pub(super) async fn uninterrupted_step<T>(
        &self,
        stage: &str,
        act: impl Future<Output = Result<T, LocalError>>,
    ) -> Result<T, LocalError> {
        self.step(stage, std::future::ready(Ok(()))).await?;
        act.await
    }

    /// A short part of a step that is not interrupted once it has begun.
    pub(super) async fn uninterrupted<T>(&self, act: impl Future<Output = T>) -> T {
        let _held = self.section.lock().await;
        act.await
    }

    /// One step: logged by name, ended by a cancel or the build's deadline.
    pub(super) async fn step<T>(
        &self,
        stage: &str,
        act: impl Future<Output = Result<T, LocalError>>,
    ) -> Result<T, LocalError> {
        self.log("info", stage, "");
        point(stage);
        tokio::select! {
            biased;
            () = self.outside_sections(self.cancel.cancelled()) => Err(LocalError::Canceled),
            () = self.outside_sections(tokio::time::sleep_until(self.deadline)) => {
                Err(LocalError::TooLong { seconds: self.deployment.options.build_deadline.as_secs() })
            }
            outcome = act => outcome,
        }
    }

    /// Waits for this future, and then for the end of a section that has begun.
    async fn outside_sections(&self, waiting: impl Future<Output = ()>) {
        waiting.await;
        drop(self.section.lock().await);
    }

    pub(super) fn log(&self, level: &str, stage: &str, output: &str) {
        self.amend_build(|build| build.log(level, stage, output));
    }

    /// Changes the record of this build without waiting for the disk.
    pub(super) fn amend_build(&self, change: impl FnOnce(&mut Build)) {
        let amended = self.deployment.amend(self.workspace.id, |workspace| {
            if let Some(build) = workspace.build_mut(self.build.id) {
                change(build);
            }
        });
        if let Some(saving) = amended {
            saving.unawaited();
        }
    }

    /// Ends every process of the workspace.
    pub(super) async fn end_processes(&self) -> Result<(), LocalError> {
        let clearing = self.deployment.read(|memory| memory.clearing.get(&self.workspace.id).cloned());
        if let Some(over) = clearing {
            over.cancelled().await;
        }
        let ended = end_tree(&marker(self.workspace.id), end_limits(&self.deployment))
            .await
            .map_err(LocalError::Unending)?;
        if ended > 0 {
            self.log("info", "Ending processes", &format!("{ended} ended"));
        }
        Ok(())
    }

    async fn conclude(&self, outcome: Result<(), LocalError>) {
        let outcome = match outcome {
            Ok(()) => Outcome::Succeeded,
            Err(error) => {
                self.clean_up().await;
                self.outcome_of(&error)
            }
        };
        point("build.concluding");
        let (id, transition) = (self.build.id, self.build.transition);
        let has_succeeded = outcome == Outcome::Succeeded;
        let amended = self.deployment.amend(self.workspace.id, |workspace| {
            workspace.is_deleted |= transition == Transition::Delete && has_succeeded;
            if let Some(build) = workspace.build_mut(id) {
                build.end(outcome);
            }
            prune::trim_builds(workspace);
        });
        if let Some(saving) = amended {
            saving.logged().await;
        }
        point("build.concluded");
        if transition == Transition::Delete {
            prune::forget_deleted(&self.deployment).await;
        }
    }

    fn outcome_of(&self, error: &LocalError) -> Outcome {
        // A cancel from before a restart of the server still counts.
        if matches!(error, LocalError::Canceled) || matches!(self.build.job, Job::Canceling { .. }) {
            return Outcome::Canceled;
        }
        let error = error.chain();
        tracing::warn!(
            workspace.name = self.workspace.name,
            build.number = self.build.number,
            error,
            "a build failed"
        );
        self.amend_build(|build| {
            let stage = build.logs.last().map(|line| line.stage.clone()).unwrap_or_default();
            build.log("error", &stage, &error);
        });
        Outcome::Failed { error }
    }

    /// After a failed build no process remains, since the API would not show it; after a failed start no files
    /// either, unless an earlier start had made them.
    async fn clean_up(&self) {
        let ended = self.end_processes().await;
        let undone = if self.has_made_files() { self.undo().await } else { Ok(()) };
        self.amend_build(|build| build.agent = None);
        for error in [ended, undone].into_iter().filter_map(Result::err) {
            self.log("error", "Cleaning up", &error.chain());
        }
    }

    /// Whether the current record says that this build made the workspace's files.
    fn has_made_files(&self) -> bool {
        self.build.transition == Transition::Start
            && self.deployment.read(|memory| {
                let workspace = memory.workspaces.get(&self.workspace.id);
                let build = workspace.and_then(|workspace| workspace.build(self.build.id));
                workspace.is_some_and(|workspace| workspace.checkout == Checkout::None)
                    || build.is_some_and(|build| build.has_made_checkout)
            })
    }

    /// Recorded before the removal: a server that dies meanwhile makes the files again.
    async fn undo(&self) -> Result<(), LocalError> {
        let forget = |workspace: &mut Workspace| {
            (workspace.checkout, workspace.base) = (Checkout::None, None);
            workspace.start_notes.clear();
            if let Some(build) = workspace.build_mut(self.build.id) {
                (build.agent, build.has_made_checkout) = (None, false);
            }
        };
        self.deployment.amend_logged(self.workspace.id, forget).await;
        checkout::undo(self).await
    }

    /// Starts the follow-up: supervision of the agent, or the start after a stop.
    async fn start_follow_up(&self) {
        order(&self.deployment, self.workspace.id, follow_up).await;
        if self.build.transition == Transition::Start {
            follow::begin(&self.deployment, self.workspace.id);
        }
    }
}
