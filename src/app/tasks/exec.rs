//! Tasks of agents without an app to tell: the project's engine is run once for each, by a command in the workspace.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::runs::NewRun;
use crate::app::snapshot::AgentState;
use crate::coder::exec::Inherited;
use crate::domain::app::{TurnEnd, TurnState};
use crate::domain::environment;
use crate::domain::log::{self, LogEntry, LogKind};
use crate::domain::run::{KEPT_OUTPUT, Run, RunEnd, RunState, RunStream};
use crate::domain::task::{Channel, Task};
use crate::domain::text::cut;
use crate::engine::{End, Engine, Event, Exit, Request, Session, remote};

/// A task without a limit of its own ends with its run after this long.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// A task's own limit is enforced by interrupting it; the run's is for when nobody is there to do that.
const MARGIN: Duration = Duration::from_secs(60);
const MAX_STDERR: u64 = 8 * 1024;

/// What is known of the run that does a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::app) struct RunSeen {
    pub(in crate::app) state: TurnState,
    /// How much it has said.
    pub(in crate::app) n_written: u64,
}

impl Fleet {
    /// Has the engine begin with a task. However often this is asked, it begins once.
    pub(in crate::app) async fn task_run_start(&self, state: &AgentState, task: &Task) -> Result<(), Error> {
        let word = self.engine_of(state).await?;
        let unfit = |reason: String| Error::EngineUnavailable { name: state.agent.name.to_string(), reason };
        let engine = remote::by_name(word, self.own_program()).ok_or_else(|| {
            unfit(format!("the engine {word} works only in workspaces with a runner; name another one"))
        })?;
        let invocation =
            engine.invocation(&self.request_of(task)).map_err(|error| unfit(error.to_string()))?;
        let program = invocation.program.to_string_lossy().into_owned();
        let arguments = invocation.arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
        let new = NewRun {
            agent: state.agent.id,
            purpose: format!("task {}", task.id),
            argv: std::iter::once(program).chain(arguments).collect(),
            cwd: None,
            inherited: Inherited::Only(&environment::ALLOWED),
            env: invocation.environment,
            stdin: invocation.stdin.into(),
            timeout: timeout_of(task),
        };
        self.start_run_as(task.run(), new).await?;
        Ok(())
    }

    /// None for tasks that reach their agent otherwise, and before the run was accepted.
    pub(in crate::app) async fn task_run_seen(&self, task: &Task) -> Result<Option<RunSeen>, Error> {
        if task.channel() != Some(Channel::Exec) {
            return Ok(None);
        }
        let Some(run) = self.store().run_by_id(task.run()).await? else { return Ok(None) };
        let state = match &run.state {
            RunState::Accepted => TurnState::Queued,
            RunState::Running => TurnState::Working,
            RunState::Ended(end) => TurnState::Ended(self.task_run_end(task, &run, end).await?),
        };
        Ok(Some(RunSeen { state, n_written: run.stdout + run.stderr }))
    }

    async fn task_run_end(&self, task: &Task, run: &Run, end: &RunEnd) -> Result<TurnEnd, Error> {
        let text = end.to_string();
        let status = match end {
            RunEnd::Exited { code } => ExitStatus::from_raw(code << 8),
            RunEnd::Signaled { signal } => ExitStatus::from_raw(*signal),
            RunEnd::Canceled => return Ok(TurnEnd::Interrupted),
            RunEnd::Unstarted => return Ok(TurnEnd::Unbegun),
            RunEnd::TimedOut | RunEnd::Failed { .. } | RunEnd::Lost { .. } => {
                return Ok(TurnEnd::Failed { text: format!("its run {text}") });
            }
        };
        let stdout = self.run_text(run, RunStream::Stdout, 0).await?;
        let tail = run.stderr.min(KEPT_OUTPUT).saturating_sub(MAX_STDERR);
        let stderr = self.run_text(run, RunStream::Stderr, tail).await?;
        let Some(engine) =
            remote::called(&run.argv).and_then(|word| remote::by_name(word, self.own_program()))
        else {
            return Ok(TurnEnd::Failed { text: format!("its run {text}, and nobody can read what it said") });
        };
        let (said, end) = read(&*engine, &self.request_of(task), &stdout, &Exit { status, stderr });
        self.task_run_log(task, run, &said).await?;
        Ok(end)
    }

    async fn run_text(&self, run: &Run, stream: RunStream, from: u64) -> Result<String, Error> {
        let (mut bytes, mut offset) = (Vec::new(), from);
        loop {
            let page = self.run_output(run.id, stream, offset, KEPT_OUTPUT).await?;
            if page.bytes.is_empty() {
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
            offset += page.bytes.len() as u64;
            bytes.extend(page.bytes);
        }
    }

    /// A line each for what was asked and answered; written again it stays the same.
    async fn task_run_log(&self, task: &Task, run: &Run, said: &str) -> Result<(), Error> {
        let (asked_at, answered_at) = (run.created_at, run.ended_at.unwrap_or(run.created_at));
        let line = |kind, content: &str, time, place: i64| LogEntry {
            conversation: 0,
            number: asked_at.timestamp_micros() + place,
            kind,
            content: cut(content, log::MAX_CHARS),
            time,
        };
        let asked = line(LogKind::Input, &task.entry.message, asked_at, 0);
        let answered = line(LogKind::Output, said, answered_at, 1);
        Ok(self.store().log_add(task.entry.agent_id, &[asked, answered]).await?)
    }

    fn request_of(&self, task: &Task) -> Request {
        Request {
            message: task.entry.message.clone(),
            session: Session::Fresh { id: task.run().0 },
            role: None,
            notes: None,
            model: None,
            directory: ".".into(),
            repository: None,
            fleet: None,
            max_cost_usd: self.options().budget.max_cost.map(|cost| cost.dollars()),
            is_review: false,
        }
    }
}

fn timeout_of(task: &Task) -> Duration {
    let own = task.work.timeout.and_then(|timeout| timeout.to_std().ok());
    own.map_or(LONGEST, |own| own + MARGIN)
}

/// What the engine said, and how it says that it ended.
fn read(engine: &dyn Engine, request: &Request, stdout: &str, exit: &Exit) -> (String, TurnEnd) {
    let mut reader = engine.reader(request);
    let mut said = Vec::new();
    for event in stdout.lines().flat_map(|line| reader.line(line)) {
        match event {
            Event::Text(text) => said.push(text),
            Event::Session(_) | Event::Spent(_) => {}
        }
    }
    let end = match reader.end(exit) {
        End::Complete { text } => TurnEnd::Complete { text },
        End::Question { text } => TurnEnd::Question { text },
        End::Failed { text, .. } => TurnEnd::Failed { text },
        End::SessionLost => TurnEnd::Failed { text: "the engine did not begin a conversation".to_owned() },
    };
    (said.join("\n"), end)
}
