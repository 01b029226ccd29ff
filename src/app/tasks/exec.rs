//! Tasks of agents without an app to tell: the project's engine is run once for each, by a command in the workspace.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::runs::NewRun;
use crate::app::tasks::errand::{self, Errand};
use crate::app::usage::RunUsage;
use crate::coder::exec::Inherited;
use crate::domain::app::{TurnEnd, TurnState};
use crate::domain::environment;
use crate::domain::log::{self, LogEntry, LogKind};
use crate::domain::run::{KEPT_OUTPUT, Run, RunEnd, RunState, RunStream};
use crate::domain::task::{Channel, Task};
use crate::domain::text::cut;
use crate::domain::usage::Spender;
use crate::engine::codex::Sandbox;
use crate::engine::{End, Engine, Event, Exit, FailureKind, Reader, Usage, remote};

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
    pub(in crate::app) async fn task_run_start(&self, task: &Task, errand: Errand) -> Result<(), Error> {
        let invocation = errand.invocation;
        let new = NewRun {
            agent: task.entry.agent_id,
            purpose: format!("task {}", task.id),
            argv: remote::argv(&invocation),
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
        if *end == RunEnd::Unstarted {
            return Ok(TurnEnd::Unbegun);
        }
        let word = remote::called(&run.argv);
        let engine = word.and_then(|word| remote::by_name(word, self.own_program(), Sandbox::Workspace));
        let Some(engine) = engine else {
            return Ok(TurnEnd::Failed { text: format!("its run {end}, and its output cannot be parsed") });
        };
        let stdout = self.run_text(run, RunStream::Stdout, 0).await?;
        let tail = run.stderr.min(KEPT_OUTPUT).saturating_sub(MAX_STDERR);
        let stderr = self.run_text(run, RunStream::Stderr, tail).await?;
        let heard = Heard::of(&*engine, task, &stdout);
        self.task_run_log(task, run, &heard.said).await?;
        self.task_run_count(run, &*engine, heard.used).await?;
        let exit = |status| Exit { status, stderr };
        Ok(match end {
            RunEnd::Exited { code } => heard.end(run, &exit(ExitStatus::from_raw(code << 8))),
            RunEnd::Signaled { signal } => heard.end(run, &exit(ExitStatus::from_raw(*signal))),
            RunEnd::Canceled => TurnEnd::Interrupted,
            RunEnd::Unstarted => TurnEnd::Unbegun,
            RunEnd::TimedOut | RunEnd::Failed { .. } | RunEnd::Lost { .. } => {
                TurnEnd::Failed { text: format!("its run {end}") }
            }
        })
    }

    async fn task_run_count(&self, run: &Run, engine: &dyn Engine, told: Option<Usage>) -> Result<(), Error> {
        if told.is_none() && engine.word().is_free() {
            return Ok(());
        }
        let over = RunUsage { run, spender: Spender::Agent, conversation: None, told };
        self.usage_of_run(over).await
    }

    pub(in crate::app) async fn run_text(
        &self,
        run: &Run,
        stream: RunStream,
        from: u64,
    ) -> Result<String, Error> {
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
}

fn timeout_of(task: &Task) -> Duration {
    let own = task.work.timeout.and_then(|timeout| timeout.to_std().ok());
    own.map_or(LONGEST, |own| own + MARGIN)
}

/// What an engine has told in a run.
struct Heard {
    said: String,
    /// None when it reported no usage.
    used: Option<Usage>,
    reader: Box<dyn Reader>,
}

impl Heard {
    fn of(engine: &dyn Engine, task: &Task, stdout: &str) -> Self {
        let mut reader = engine.reader(&errand::bare(task));
        let (mut said, mut used) = (Vec::new(), None);
        for event in stdout.lines().flat_map(|line| reader.line(line)) {
            match event {
                Event::Text(text) => said.push(text),
                Event::Spent(spent) => used = Some(spent.run),
                Event::Session(_) => {}
            }
        }
        Self { said: said.join("\n"), used, reader }
    }

    /// How it says that it ended. What is said last is lost where a run says more than is kept.
    fn end(self, run: &Run, exit: &Exit) -> TurnEnd {
        match self.reader.end(exit) {
            End::Complete { text } => TurnEnd::Complete { text },
            End::Question { text } => TurnEnd::Question { text },
            End::Failed { kind: FailureKind::BadOutput, .. }
                if exit.status.success() && run.stdout > KEPT_OUTPUT =>
            {
                TurnEnd::Complete {
                    text: "its output exceeded the limit, and the end of it is lost".to_owned(),
                }
            }
            End::Failed { text, .. } => TurnEnd::Failed { text },
            End::SessionLost => {
                TurnEnd::Failed { text: "the engine did not start a conversation".to_owned() }
            }
        }
    }
}
