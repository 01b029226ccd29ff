//! Tasks of agents without an app: each task is one run of the project's engine in the workspace.

use std::time::Duration;

use crate::app::Fleet;
use crate::app::engine_runs::{
    Briefing, EngineOutcome, EngineReport, EngineRequest, PrepareFailure, PreparedRun,
};
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::domain::app::{TurnEnd, TurnState};
use crate::domain::log::{self, LogEntry, LogKind};
use crate::domain::run::{EngineOutput, Run, RunState};
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
            RunState::Ended(_) => match self.engine_run_report(&run).await? {
                Some(report) => TurnState::Ended(self.task_run_end(task, &run, report).await?),
                None => TurnState::Working,
            },
        };
        Ok(Some(RunSeen { state, n_written: run.stdout + run.stderr }))
    }

    async fn task_run_end(&self, task: &Task, run: &Run, report: EngineReport) -> Result<TurnEnd, Error> {
        self.task_run_log(task, run, &report.text).await?;
        Ok(match report.outcome {
            EngineOutcome::Ended(end) => turn_end(end),
            EngineOutcome::Canceled => TurnEnd::Interrupted,
            EngineOutcome::NotStarted => TurnEnd::Unbegun,
        })
    }

    /// Logs the message and the answer as one entry each; safe to repeat.
    async fn task_run_log(&self, task: &Task, run: &Run, text: &str) -> Result<(), Error> {
        let (asked_at, answered_at) = (run.created_at, run.ended_at.unwrap_or(run.created_at));
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

fn turn_end(end: EngineEnd) -> TurnEnd {
    match end {
        EngineEnd::Complete { text } => TurnEnd::Complete { text },
        EngineEnd::Question { text } => TurnEnd::Question { text },
        EngineEnd::Failed { text, .. } => TurnEnd::Failed { text },
        EngineEnd::SessionLost => {
            TurnEnd::Failed { text: "the engine did not start a conversation".to_owned() }
        }
    }
}
