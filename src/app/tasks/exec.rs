//! Tasks of agents without an app: each task is one run of the project's engine in the workspace.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::app::Fleet;
use crate::app::engine_runs::{Briefing, EngineOutcome, EngineRequest, PrepareFailure, PreparedRun};
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::app::{TurnEnd, TurnState};
use crate::domain::log::{self, LogEntry, LogKind};
use crate::domain::run::{EngineOutput, RunState};
use crate::domain::task::{Channel, Task};
use crate::domain::text::cut;
use crate::domain::usage::Spender;
use crate::engine::template::Values;
use crate::engine::{EngineEnd, Session};

/// The limit of a run whose task has no limit.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// A task's limit is enforced by an interrupt; the run's longer limit applies while the server is down.
const MARGIN: Duration = Duration::from_secs(60);

/// The state of a task's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::app) struct RunSeen {
    pub(in crate::app) state: TurnState,
    /// The size of its output in bytes.
    pub(in crate::app) n_written: u64,
}

impl Fleet {
    pub(in crate::app) async fn task_run_prepare(
        &self,
        state: &AgentState,
        task: &Task,
    ) -> Result<PreparedRun, PrepareFailure> {
        let wanted = EngineRequest {
            purpose: format!("task {}", task.id),
            message: task.entry.message.clone(),
            session: Session::Fresh { id: task.run().0 },
            engine: None,
            model: None,
            cwd: None,
            briefing: Briefing::Agent,
            output: EngineOutput::Events,
            spender: Spender::Agent,
            variables: Values::new(),
            timeout: timeout_of(task),
        };
        self.engine_run_prepare(state, wanted).await
    }

    /// None for tasks of other channels, and before the run is accepted.
    pub(in crate::app) async fn task_run_seen(&self, task: &Task) -> Result<Option<RunSeen>, Error> {
        if task.channel() != Some(Channel::Exec) {
            return Ok(None);
        }
        let Some(run) = self.store().run_by_id(task.run()).await? else { return Ok(None) };
        let state = match &run.state {
            RunState::Accepted => TurnState::Queued,
            RunState::Running => TurnState::Working,
            RunState::Ended { end, at } => {
                let report = self.engine_run_report(&run, end).await?;
                self.task_run_log(task, (run.created_at, *at), &report.text).await?;
                TurnState::Ended(turn_end(report.outcome))
            }
        };
        Ok(Some(RunSeen { state, n_written: run.stdout + run.stderr }))
    }

    /// Logs the message and the answer as one entry each; safe to repeat.
    async fn task_run_log(
        &self,
        task: &Task,
        (asked_at, answered_at): (DateTime<Utc>, DateTime<Utc>),
        text: &str,
    ) -> Result<(), Error> {
        let line = |kind, content: &str, time, position: i64| LogEntry {
            conversation: 0,
            number: asked_at.timestamp_micros() + position,
            kind,
            content: cut(content, log::MAX_CHARS),
            time,
        };
        let asked = line(LogKind::Input, &task.entry.message, asked_at, 0);
        let answered = line(LogKind::Output, text, answered_at, 1);
        Ok(self.store().log_add(task.entry.agent_id, &[asked, answered]).await?)
    }
}

fn timeout_of(task: &Task) -> Duration {
    let own = task.work.timeout.and_then(|timeout| timeout.to_std().ok());
    own.map_or(LONGEST, |own| own + MARGIN)
}

fn turn_end(outcome: EngineOutcome) -> TurnEnd {
    match outcome {
        EngineOutcome::Ended(EngineEnd::Complete { text }) => TurnEnd::Complete { text },
        EngineOutcome::Ended(EngineEnd::Question { text }) => TurnEnd::Question { text },
        EngineOutcome::Ended(EngineEnd::Failed { text, .. }) => TurnEnd::Failed { text },
        EngineOutcome::Ended(EngineEnd::SessionLost) => {
            TurnEnd::Failed { text: "the engine did not start a conversation".to_owned() }
        }
        EngineOutcome::Canceled => TurnEnd::Interrupted,
        EngineOutcome::NotStarted => TurnEnd::Unbegun,
    }
}
