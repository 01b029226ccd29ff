//! Runs a task as an engine process in the workspace, for agents without an app.

use chrono::Utc;

use super::tasks::{TaskWorker, TurnResult};
use crate::app::Fleet;
use crate::app::agent_app::DeliveryResult;
use crate::app::engine_runs::{PrepareError, PreparedRun};
use crate::app::error::{Code, Error};
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::task::{Channel, Task, TaskState};

const NO_COMMANDS: &str = "the workspace has no AgentAPI app and cannot run commands";

/// Whether a task can be run.
enum Readiness {
    Now(Box<PreparedRun>),
    /// The workspace does not respond, or the agent's files are not delivered yet.
    Later,
    Impossible(String),
}

impl Fleet {
    /// Probes the workspace, records the intent with the repository's HEAD, and starts the run. The run's id derives
    /// from the task, so that it starts once across interruptions.
    pub(super) async fn task_send_run(
        &self,
        worker: &TaskWorker,
        state: &AgentState,
        mut task: Task,
    ) -> Result<TurnResult, Error> {
        let prepared = {
            let _permit = worker.permits.acquire().await;
            match self.task_ready(state, &task).await {
                Readiness::Now(prepared) => prepared,
                Readiness::Later => return Ok(TurnResult::Pause),
                Readiness::Impossible(reason) => {
                    return self.task_apply_delivery(task, DeliveryResult::Refused(reason)).await;
                }
            }
        };
        let moves = [(TaskState::Delivering, "being delivered to the agent")];
        // A repeated start is already in this state.
        let moves: &[_] = if task.state() == TaskState::Queued { &moves } else { &[] };
        task.note_head(prepared.head.clone());
        task.send(Channel::Exec, None, (state.agent.sighting.generation, Utc::now()));
        if self.task_record(&task, moves).await? == TurnResult::Pause {
            return Ok(TurnResult::Pause);
        }
        point("task.recorded");
        let result = self.task_begin(&task, *prepared).await;
        point("task.answered");
        match result {
            // The run's own state is more precise than this result.
            DeliveryResult::Accepted => Ok(TurnResult::ProbeNow),
            result => self.task_apply_delivery(task, result).await,
        }
    }

    async fn task_ready(&self, state: &AgentState, task: &Task) -> Readiness {
        if state.live.workspace_agent.is_none() {
            return Readiness::Impossible(NO_COMMANDS.to_owned());
        }
        let why = match self.task_run_prepare(state, task).await {
            Ok(prepared) => return Readiness::Now(Box::new(prepared)),
            Err(failure) => match failure.reason {
                PrepareError::Impossible(reason) => return Readiness::Impossible(reason),
                PrepareError::Fleet(error) if error.code() == Code::EngineUnavailable => {
                    return Readiness::Impossible(error.to_string());
                }
                PrepareError::Fleet(error) => error.to_string(),
                PrepareError::Later(reason) | PrepareError::Directory(reason) => reason,
            },
        };
        tracing::debug!(agent.name = %state.agent.name, why, "a task cannot be run yet");
        Readiness::Later
    }

    async fn task_begin(&self, task: &Task, prepared: PreparedRun) -> DeliveryResult {
        match self.engine_run_launch(task.run(), prepared).await {
            Ok(()) => DeliveryResult::Accepted,
            // The run may be accepted: the next probe shows it.
            Err(Error::Store(_) | Error::DiskFull) => DeliveryResult::Unclear,
            Err(error) => {
                tracing::debug!(task.id = %task.id, %error, "a task's run is not accepted yet");
                DeliveryResult::TryLater
            }
        }
    }
}
