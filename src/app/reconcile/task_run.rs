//! Has the project's engine do a task by a command in the workspace, where nobody is there to be told.

use chrono::Utc;

use super::tasks::{Turn, Worker};
use crate::app::Fleet;
use crate::app::agent_app::Told;
use crate::app::error::{Code, Error};
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::app::tasks::{Errand, Readiness};
use crate::domain::task::{Channel, Task, TaskState};

const NO_WAY: &str = "the workspace has no AgentAPI app and cannot run commands";

impl Fleet {
    /// Looks where the run will work, records the intent with where the repository stands, and has it begin. Whatever
    /// cuts this off, the run goes by the task's name and begins once.
    pub(super) async fn task_send_run(
        &self,
        worker: &Worker,
        state: &AgentState,
        mut task: Task,
    ) -> Result<Turn, Error> {
        let errand = {
            let _place = worker.places.acquire().await;
            match self.task_ready(state, &task).await {
                Readiness::Now(errand) => errand,
                Readiness::Later => return Ok(Turn::Pause),
                Readiness::Never(reason) => return self.task_told(task, Told::Refused(reason)).await,
            }
        };
        let moves = [(TaskState::Delivering, "being delivered to the agent")];
        // One that is begun again has been in this state before.
        let moves: &[_] = if task.state() == TaskState::Queued { &moves } else { &[] };
        task.note_head(errand.head.clone());
        task.send(Channel::Exec, None, (state.agent.sighting.generation, Utc::now()));
        if self.task_record(&task, moves).await? == Turn::Pause {
            return Ok(Turn::Pause);
        }
        point("task.recorded");
        let begun = self.task_begin(&task, errand).await;
        point("task.answered");
        match begun {
            // The run itself says more than the answer.
            Told::Accepted => Ok(Turn::Look),
            told => self.task_told(task, told).await,
        }
    }

    async fn task_ready(&self, state: &AgentState, task: &Task) -> Readiness {
        if state.live.workspace_agent.is_none() {
            return Readiness::Never(NO_WAY.to_owned());
        }
        match self.task_errand(state, task).await {
            Ok(readiness) => readiness,
            Err(error) if error.code() == Code::EngineUnavailable => Readiness::Never(error.to_string()),
            Err(error) => {
                tracing::debug!(agent.name = %state.agent.name, %error, "a task cannot be run yet");
                Readiness::Later
            }
        }
    }

    async fn task_begin(&self, task: &Task, errand: Errand) -> Told {
        match self.task_run_start(task, errand).await {
            Ok(()) => Told::Accepted,
            // It may have been accepted all the same: the next look tells.
            Err(Error::Store(_) | Error::DiskFull) => Told::Unclear,
            Err(error) => {
                tracing::debug!(task.id = %task.id, %error, "a task's run is not accepted yet");
                Told::NotNow
            }
        }
    }
}
