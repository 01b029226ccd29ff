//! Runs one engine process, from its start to the end of its last descendant.

mod agent_token;
pub(crate) mod descendants;
mod note;
mod output;
mod output_reader;
mod session_log;

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::sync::CancellationToken;

use super::limits::RunnerLimits;
use crate::domain::id::RunId;
use crate::engine::budget::Budget;
use crate::engine::{
    ConversationUsage, Engine, EngineEnd, EngineWord, Exit, FailureKind, Invocation, Request, RunUsage,
    Session, Usage,
};
use crate::files::regular;
use crate::process::{EndLimits, ProcessId, restore_for_children};
use descendants::MARKER;
use note::EngineNote;
pub(crate) use output::Transcript;
use output_reader::OutputReader;
pub(crate) use output_reader::ProcessEvent;
pub(crate) use session_log::recall;

/// The runner's own variables, which engines do not get.
const PRIVATE: [&str; 4] =
    ["CODER_SESSION_TOKEN", "FLEET_AGENT_LISTENER", "FLEET_AGENT_SOCKET", "FLEET_TOKEN"];
const MAX_STDERR: usize = 8 * 1024;

/// A run to start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The runner's own directory.
    pub(crate) directory: &'a Path,
    pub(crate) engine: &'a dyn Engine,
    pub(crate) request: Request,
    pub(crate) run: RunId,
    pub(crate) limits: RunnerLimits,
    /// Canceled when the workspace is being stopped, which leaves little time.
    pub(crate) stop: &'a CancellationToken,
    /// The budget of this run.
    pub(crate) budget: Budget,
}

impl Launch<'_> {
    /// The time limits of the last steps of the termination.
    fn end_limits(&self) -> EndLimits {
        let usual = self.limits.end();
        match self.stop.is_cancelled() {
            true => EndLimits { term: usual.term.min(self.limits.stop_step), ..usual },
            false => usual,
        }
    }

    /// Returns when a step has used the time that a stop of the workspace allows.
    async fn stop_step_over(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(self.limits.stop_step).await;
    }
}

/// The result of a run.
#[derive(Debug, PartialEq)]
pub(crate) struct Finished {
    pub(crate) finish: Finish,
    pub(crate) spent: RunUsage,
    /// The engine ran and reported no usage.
    pub(crate) is_unknown: bool,
}

impl Finished {
    /// For a run whose engine was started.
    pub(crate) fn of(engine: EngineWord, finish: Finish, spent: RunUsage) -> Self {
        let did_nothing = engine.is_free() || finish == Finish::Reported(EngineEnd::SessionLost);
        let is_unknown = !did_nothing && spent.run == Usage::default();
        Self { finish, spent, is_unknown }
    }

    /// For a run whose engine did nothing.
    pub(crate) fn unspent(finish: Finish, session: ConversationUsage) -> Self {
        Self { finish, spent: RunUsage { run: Usage::default(), session }, is_unknown: false }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Finish {
    Reported(EngineEnd),
    Interrupted,
    /// Stopped because it used up its budget.
    OverBudget,
}

/// Records that this runner is alive and that no engine runs.
pub(crate) fn note_idle(directory: &Path) {
    drop(EngineNote::of(directory, None));
}

/// Runs the engine and passes on its events. When this returns, no process of the run is left.
pub(crate) async fn run(
    mut launch: Launch<'_>,
    interrupt: &CancellationToken,
    mut on_event: impl FnMut(ProcessEvent),
) -> Finished {
    match open(&launch, interrupt).await {
        Ok(None) => {}
        Ok(Some(chat)) => {
            on_event(ProcessEvent::Session(chat.clone()));
            launch.request.session = Session::Created { id: chat };
        }
        Err(finish) => return Finished::unspent(finish, ConversationUsage::default()),
    }
    match launch.engine.invocation(&launch.request) {
        Ok(invocation) => converse(&launch, &invocation, interrupt, on_event).await,
        Err(unfit) => {
            let finish = Finish::Reported(failed(FailureKind::EngineError, unfit.to_string()));
            Finished::unspent(finish, launch.request.session.usage_before())
        }
    }
}

/// Creates the session, for engines that require that first; returns its id.
async fn open(launch: &Launch<'_>, interrupt: &CancellationToken) -> Result<Option<String>, Finish> {
    let unfit = |unfit: crate::engine::InvocationError| {
        Finish::Reported(failed(FailureKind::EngineError, unfit.to_string()))
    };
    let Some(invocation) = launch.engine.session_creation(&launch.request).map_err(unfit)? else {
        return Ok(None);
    };
    match converse(launch, &invocation, interrupt, |_| {}).await.finish {
        Finish::Reported(EngineEnd::Complete { text }) if !text.trim().is_empty() => {
            Ok(Some(text.trim().to_owned()))
        }
        Finish::Reported(EngineEnd::Complete { .. }) => {
            let text = "the engine printed no id for a new conversation".to_owned();
            Err(Finish::Reported(failed(FailureKind::BadOutput, text)))
        }
        other => Err(other),
    }
}

async fn converse(
    launch: &Launch<'_>,
    invocation: &Invocation,
    interrupt: &CancellationToken,
    on_event: impl FnMut(ProcessEvent),
) -> Finished {
    let mut output_reader = OutputReader::new(launch, on_event);
    let mut process = match spawn(launch, invocation) {
        Ok(process) => process,
        Err(error) => return Finished::unspent(missing(invocation, &error), output_reader.spent.session),
    };
    output_reader.started();
    let note = EngineNote::of(launch.directory, process.child.id());
    let mut stderr = Vec::new();
    let stopped = {
        let child = &mut process.child;
        let (stdin, stdout, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let over = output_reader.over.clone();
        let conversation = async {
            tokio::join!(
                feed(stdin, &invocation.stdin),
                output_reader.listen(stdout),
                tail(errors, &mut stderr)
            )
        };
        with_conversation(ended(&mut process, launch, interrupt, &over), conversation, launch.limits.drain)
            .await
    };
    let spent = output_reader.spent;
    let finish = match stopped {
        Stopped::Interrupted => Finish::Interrupted,
        Stopped::OverBudget => Finish::OverBudget,
        Stopped::Ended(Ok(status)) if !status.success() && note.is_ended_by_others() => Finish::Interrupted,
        Stopped::Ended(Ok(status)) => {
            let stderr = String::from_utf8_lossy(&stderr).into_owned();
            Finish::Reported(output_reader.reader.end(&Exit { status, stderr }))
        }
        Stopped::Ended(Err(error)) => {
            Finish::Reported(failed(FailureKind::Crashed, format!("cannot wait for the engine: {error}")))
        }
    };
    Finished::of(launch.engine.word(), finish, spent)
}

/// How the process ended.
enum Stopped {
    Ended(io::Result<ExitStatus>),
    Interrupted,
    OverBudget,
}

/// Waits for the process while reading its output, and then only briefly for the rest.
async fn with_conversation(
    ended: impl Future<Output = Stopped>,
    conversation: impl Future,
    drain: Duration,
) -> Stopped {
    tokio::pin!(ended, conversation);
    tokio::select! {
        _ = &mut conversation => ended.await,
        stopped = &mut ended => {
            // A timeout here only means that a process outside of the run holds the pipe.
            let _drained = tokio::time::timeout(drain, conversation).await;
            stopped
        }
    }
}

/// A started engine.
struct EngineProcess {
    child: Child,
    /// The leader of its own process group. Unknown only if the process table cannot be read.
    id: Option<ProcessId>,
}

fn spawn(launch: &Launch<'_>, invocation: &Invocation) -> io::Result<EngineProcess> {
    let mut command = Command::new(&invocation.program);
    command.args(&invocation.arguments).current_dir(&launch.request.directory);
    for variable in PRIVATE.into_iter().chain(agent_token::unless_git_asks_coder()) {
        command.env_remove(variable);
    }
    command.envs(invocation.environment.iter().cloned()).env(MARKER, launch.run.to_string());
    for (name, file) in &invocation.secrets {
        let text = regular::text(file)?;
        command.env(name, text.lines().next().unwrap_or_default().trim());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    restore_for_children()?;
    // Its own group, so that Ctrl-C at the runner's terminal reaches the engine only through the termination steps.
    let child = command.process_group(0).kill_on_drop(true).spawn()?;
    let id = child.id().and_then(|pid| ProcessId::of(pid).ok());
    Ok(EngineProcess { child, id })
}

/// Waits for the engine's end, terminates it when requested, and leaves no process of the run.
async fn ended(
    process: &mut EngineProcess,
    launch: &Launch<'_>,
    interrupt: &CancellationToken,
    over: &CancellationToken,
) -> Stopped {
    let stopped = tokio::select! {
        biased;
        status = process.child.wait() => Stopped::Ended(status),
        () = interrupt.cancelled() => Stopped::Interrupted,
        () = over.cancelled() => Stopped::OverBudget,
    };
    if !matches!(stopped, Stopped::Ended(_)) {
        terminate(process, launch).await;
    }
    descendants::end(launch.run, process.id, launch.end_limits()).await;
    stopped
}

/// Terminates in steps: INT, TERM, KILL.
async fn terminate(process: &mut EngineProcess, launch: &Launch<'_>) {
    let EngineProcess { child, id } = process;
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It is not reaped yet, so the pid is still its own.
        let _gone = kill_process(pid, Signal::INT);
    }
    tokio::select! {
        _ = child.wait() => return,
        () = tokio::time::sleep(launch.limits.interrupt) => {}
        () = launch.stop_step_over() => {}
    }
    descendants::end(launch.run, *id, launch.end_limits()).await;
    // Even a hidden process is still our child.
    if let Err(error) = child.kill().await {
        tracing::warn!(%error, run.id = %launch.run, "the engine cannot be killed");
    }
}

/// An engine need not read all of its message; its output shows whether it did.
async fn feed(stdin: Option<ChildStdin>, message: &str) {
    if let Some(mut stdin) = stdin {
        let _unread = stdin.write_all(message.as_bytes()).await;
    }
}

async fn tail(stderr: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut stderr) = stderr else { return };
    let mut chunk = vec![0; MAX_STDERR];
    while let Ok(n_read @ 1..) = stderr.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..n_read]);
        kept.drain(..kept.len().saturating_sub(MAX_STDERR));
    }
}

fn missing(invocation: &Invocation, error: &io::Error) -> Finish {
    let text = format!("cannot start {}: {error}", invocation.program.display());
    Finish::Reported(failed(FailureKind::EngineMissing, text))
}

fn failed(kind: FailureKind, text: String) -> EngineEnd {
    EngineEnd::Failed { kind, text }
}
