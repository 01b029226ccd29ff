//! The step of a delete that saves the agent's work: limited in time, repeated after a crash, and never able to block
//! the delete.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use super::observe::agents_of;
use super::perform::{ActiveOperation, StepResult};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::rescue::{BundleResult, RescueDirectory, fetch_bundle};
use crate::coder::wire::Workspace;
use crate::domain::history::{HistoryLine, Report};
use crate::domain::operation::OperationEnd;
use crate::domain::rescue::{Rescue, RescueOutcome, SavedWork};
use crate::domain::task::TaskSource;
use crate::domain::words::{AppState, Connection};
use crate::store::StoreError;

impl Fleet {
    /// Tries to save the work until the deadline; the delete continues with any outcome.
    pub(super) async fn rescue(
        &self,
        active: &mut ActiveOperation,
        workspace: Option<&Workspace>,
        until: DateTime<Utc>,
        stop: &CancellationToken,
    ) -> Result<StepResult, Error> {
        let Some(rescue) = active.rescue.clone() else { return Ok(StepResult::Repeat) };
        self.rescue_begin(active, &rescue).await?;
        point("rescue.begun");
        // A clock that was set back must not extend the limit.
        let limit = (until - Utc::now()).min(self.limits().rescue).to_std().unwrap_or(Duration::ZERO);
        let saving = tokio::time::timeout(limit, self.rescue_try(&rescue, workspace));
        let outcome = tokio::select! {
            saved = saving => saved.unwrap_or_else(|_| failed("the workspace timed out")),
            // Another delete may take over; its attempt starts anew.
            () = stop.cancelled() => return Ok(StepResult::Repeat),
        };
        point("rescue.tried");
        self.rescue_end(active, outcome).await?;
        point("rescue.recorded");
        Ok(StepResult::Repeat)
    }

    /// Closes a rescue that ended without an outcome: at its deadline, or because the workspace is gone.
    pub(super) async fn rescue_close(
        &self,
        active: &mut ActiveOperation,
        end: &OperationEnd,
    ) -> Result<(), Error> {
        let left = match active.rescue.as_ref().map(|rescue| &rescue.outcome) {
            Some(RescueOutcome::Wanted | RescueOutcome::Trying { .. })
                if matches!(end, OperationEnd::Canceled(_)) =>
            {
                failed("the delete was canceled")
            }
            Some(RescueOutcome::Wanted) => failed("the workspace was deleted or could not be read"),
            Some(RescueOutcome::Trying { .. }) => self.rescue_unrecorded(active),
            Some(RescueOutcome::Saved(_) | RescueOutcome::Nothing | RescueOutcome::Failed { .. }) | None => {
                return Ok(());
            }
        };
        self.rescue_end(active, left).await
    }

    /// The outcome of an attempt that the server did not record before it was killed.
    fn rescue_unrecorded(&self, active: &ActiveOperation) -> RescueOutcome {
        let kept = active.rescue.as_ref().and_then(|rescue| self.rescue_directory().existing(rescue));
        kept.map_or_else(|| failed("the rescue timed out"), RescueOutcome::Saved)
    }

    async fn rescue_begin(&self, active: &mut ActiveOperation, rescue: &Rescue) -> Result<(), Error> {
        if rescue.outcome != RescueOutcome::Wanted {
            return Ok(());
        }
        let trying = RescueOutcome::Trying { since: Utc::now() };
        let untold = None;
        if !self.store().rescue_move(rescue.id, &trying, untold).await? {
            return Err(StoreError::Ended.into());
        }
        active.rescue = Some(Rescue { outcome: trying, ..rescue.clone() });
        Ok(())
    }

    async fn rescue_try(&self, rescue: &Rescue, workspace: Option<&Workspace>) -> RescueOutcome {
        if let Some(kept) = self.rescue_directory().existing(rescue) {
            return RescueOutcome::Saved(kept);
        }
        let is_connected = |word: &str| Connection::from_word(word) == Connection::Connected;
        let agents: Vec<_> = workspace.into_iter().flat_map(agents_of).collect();
        let Some(agent) = agents.iter().find(|agent| is_connected(&agent.status)) else {
            let is_up = !agents.is_empty();
            let reason =
                if is_up { "the workspace cannot be reached" } else { "the workspace is not running" };
            return failed(reason);
        };
        let mut draft = match self.rescue_directory().begin(rescue) {
            Ok(draft) => draft,
            Err(error) => return failed(&format!("the directory for saved work cannot be used: {error}")),
        };
        match fetch_bundle(&self.workspace_exec(agent.id, &rescue.project), &mut draft).await {
            Ok(BundleResult::Bundle(bundle)) => match draft.finish() {
                Ok(()) => RescueOutcome::Saved(SavedWork {
                    file: RescueDirectory::name_for(rescue),
                    bytes: bundle.bytes,
                    commit: bundle.commit,
                    note: bundle.note,
                }),
                Err(error) => failed(&format!("it could not be stored: {error}")),
            },
            Ok(BundleResult::Nothing) => RescueOutcome::Nothing,
            Ok(BundleResult::Failed(reason)) => failed(&reason),
            Err(error) => failed(&error.to_string()),
        }
    }

    async fn rescue_end(&self, active: &mut ActiveOperation, outcome: RescueOutcome) -> Result<(), Error> {
        let Some(rescue) = active.rescue.clone() else { return Ok(()) };
        let over = Rescue { outcome, ..rescue };
        tracing::info!(
            agent.name = %over.agent_name, rescue.outcome = %over.outcome,
            "rescue of an agent's work has ended"
        );
        let report = report_of(&over, active.agent.sighting.generation);
        self.store().rescue_move(over.id, &over.outcome, Some(&report)).await?;
        active.rescue = Some(over);
        self.nudge_operations();
        Ok(())
    }
}

fn failed(reason: &str) -> RescueOutcome {
    RescueOutcome::Failed { reason: reason.to_owned() }
}

/// An entry in the agent's history, which outlives the agent.
fn report_of(rescue: &Rescue, generation: i64) -> Report {
    let state = match rescue.outcome {
        RescueOutcome::Failed { .. } => AppState::Failure,
        RescueOutcome::Saved(_) | RescueOutcome::Nothing => AppState::Complete,
        RescueOutcome::Wanted | RescueOutcome::Trying { .. } => AppState::Working,
    };
    let line = HistoryLine {
        agent_id: rescue.agent_id,
        message: format!("agent '{}' is being deleted; {}", rescue.agent_name, rescue.outcome),
        source: TaskSource::Manager,
        generation,
        created_at: rescue.created_at,
    };
    Report { id: rescue.id.0, line, state, task_id: None, uri: None, needs_answer: false }
}
