//! One engine process from its start to the end of its last descendant.

mod agent_token;
pub(crate) mod descendants;
mod hearing;
mod note;
mod output;
mod side;

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::sync::CancellationToken;

use super::options::Ladder;
use crate::domain::id::RunId;
use crate::engine::budget::Budget;
use crate::engine::{
    Count, End, Engine, EngineWord, Exit, FailureKind, Invocation, Request, Session, Spent, Usage,
};
use crate::files::regular;
use crate::process::{ProcessId, restore_for_children};
use descendants::MARKER;
pub(crate) use hearing::Heard;
use hearing::Hearing;
use note::Note;
pub(crate) use output::Transcript;
pub(crate) use side::recall;

/// The runner's own business, which no engine needs to know.
const PRIVATE: [&str; 4] =
    ["CODER_SESSION_TOKEN", "FLEET_AGENT_LISTENER", "FLEET_AGENT_SOCKET", "FLEET_TOKEN"];
const MAX_STDERR: usize = 8 * 1024;
/// Each rung of the ladder takes this long at most while the workspace is being stopped: whoever stops it kills us
/// soon after, and how the run ended has to be written down before.
const HURRY: Duration = Duration::from_secs(1);
/// Once all processes are gone their pipes are closed; one that escaped us does not hold up the rest.
const DRAIN: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// Where the runner keeps what is its own.
    pub(crate) directory: &'a Path,
    pub(crate) engine: &'a dyn Engine,
    pub(crate) request: Request,
    pub(crate) run: RunId,
    pub(crate) ladder: Ladder,
    /// The workspace is being stopped, which leaves little time.
    pub(crate) stop: &'a CancellationToken,
    /// What this run may use.
    pub(crate) budget: Budget,
}

impl Launch<'_> {
    /// How long to wait on one rung of the ladder.
    fn patience(&self, usual: Duration) -> Duration {
        if self.stop.is_cancelled() { usual.min(HURRY) } else { usual }
    }

    /// Returns when a rung has taken long enough for a workspace that is being stopped.
    async fn hurried(&self) {
        self.stop.cancelled().await;
        tokio::time::sleep(HURRY).await;
    }
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Finished {
    pub(crate) finish: Finish,
    pub(crate) spent: Spent,
    /// The engine ran and reported no usage.
    pub(crate) is_unknown: bool,
}

impl Finished {
    /// Of a run whose engine was started.
    pub(crate) fn of(engine: EngineWord, finish: Finish, spent: Spent) -> Self {
        let did_nothing = engine.is_free() || finish == Finish::Told(End::SessionLost);
        let is_unknown = !did_nothing && spent.run == Usage::default();
        Self { finish, spent, is_unknown }
    }

    /// Of a run whose engine did nothing.
    pub(crate) fn unspent(finish: Finish, session: Count) -> Self {
        Self { finish, spent: Spent { run: Usage::default(), session }, is_unknown: false }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Finish {
    Told(End),
    Interrupted,
    /// Stopped in the middle, because it used up what it may use.
    OverBudget,
}

/// Says that this runner is here and that no engine runs.
pub(crate) fn introduce(directory: &Path) {
    drop(Note::of(directory, None));
}

/// Runs the engine and hands on what it says. When this returns, no process of the run is left.
pub(crate) async fn run(
    mut launch: Launch<'_>,
    interrupt: &CancellationToken,
    mut heard: impl FnMut(Heard),
) -> Finished {
    match open(&launch, interrupt).await {
        Ok(None) => {}
        Ok(Some(chat)) => {
            heard(Heard::Session(chat.clone()));
            launch.request.session = Session::Opened { id: chat };
        }
        Err(finish) => return Finished::unspent(finish, Count::default()),
    }
    match launch.engine.invocation(&launch.request) {
        Ok(invocation) => talk(&launch, &invocation, interrupt, heard).await,
        Err(unfit) => {
            let finish = Finish::Told(failed(FailureKind::EngineError, unfit.to_string()));
            Finished::unspent(finish, launch.request.session.spent())
        }
    }
}

/// Makes the conversation, for engines that want that first; tells its id.
async fn open(launch: &Launch<'_>, interrupt: &CancellationToken) -> Result<Option<String>, Finish> {
    let unfit =
        |unfit: crate::engine::Unfit| Finish::Told(failed(FailureKind::EngineError, unfit.to_string()));
    let Some(invocation) = launch.engine.opening(&launch.request).map_err(unfit)? else { return Ok(None) };
    match talk(launch, &invocation, interrupt, |_| {}).await.finish {
        Finish::Told(End::Complete { text }) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
        Finish::Told(End::Complete { .. }) => {
            let text = "the engine printed no id for a new conversation".to_owned();
            Err(Finish::Told(failed(FailureKind::BadOutput, text)))
        }
        other => Err(other),
    }
}

async fn talk(
    launch: &Launch<'_>,
    invocation: &Invocation,
    interrupt: &CancellationToken,
    heard: impl FnMut(Heard),
) -> Finished {
    let mut hearing = Hearing::new(launch, heard);
    let mut process = match spawn(launch, invocation) {
        Ok(process) => process,
        Err(error) => return Finished::unspent(missing(invocation, &error), hearing.spent.session),
    };
    hearing.started();
    let note = Note::of(launch.directory, process.child.id());
    let mut stderr = Vec::new();
    let stopped = {
        let child = &mut process.child;
        let (stdin, stdout, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let over = hearing.over.clone();
        let talk = async {
            tokio::join!(feed(stdin, &invocation.stdin), hearing.listen(stdout), tail(errors, &mut stderr))
        };
        with_talk(ended(&mut process, launch, interrupt, &over), talk).await
    };
    let spent = hearing.spent;
    let finish = match stopped {
        Stopped::Interrupted => Finish::Interrupted,
        Stopped::OverBudget => Finish::OverBudget,
        Stopped::Ended(Ok(status)) if !status.success() && note.is_ended_by_others() => Finish::Interrupted,
        Stopped::Ended(Ok(status)) => {
            let stderr = String::from_utf8_lossy(&stderr).into_owned();
            Finish::Told(hearing.reader.end(&Exit { status, stderr }))
        }
        Stopped::Ended(Err(error)) => {
            Finish::Told(failed(FailureKind::Crashed, format!("lost the engine: {error}")))
        }
    };
    Finished::of(launch.engine.word(), finish, spent)
}

/// How the process came to its end.
enum Stopped {
    Ended(io::Result<ExitStatus>),
    Interrupted,
    OverBudget,
}

/// Waits for the process while talking to it, and then only a moment longer for its last words.
async fn with_talk(ended: impl Future<Output = Stopped>, talk: impl Future) -> Stopped {
    tokio::pin!(ended, talk);
    tokio::select! {
        _ = &mut talk => ended.await,
        stopped = &mut ended => {
            // Running out of time here only means that somebody holds the pipe who does not belong to the run.
            let _drained = tokio::time::timeout(DRAIN, talk).await;
            stopped
        }
    }
}

/// An engine that was started.
struct EngineProcess {
    child: Child,
    /// Leads a group of its own. Unknown only where the process table cannot be read.
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
    // A group of its own, so that Ctrl-C at the runner's terminal reaches the engine by our ladder only.
    let child = command.process_group(0).kill_on_drop(true).spawn()?;
    let id = child.id().and_then(|pid| ProcessId::of(pid).ok());
    Ok(EngineProcess { child, id })
}

/// Waits for the engine's end, bringing it about when asked to, and leaves nothing of the run behind.
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
        climb(process, launch).await;
    }
    descendants::end(launch.run, process.id, launch.patience(launch.ladder.terminate)).await;
    stopped
}

/// Asks, then insists, then forces.
async fn climb(process: &mut EngineProcess, launch: &Launch<'_>) {
    let EngineProcess { child, id } = process;
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It has not been waited for, so the number is still its own.
        let _gone = kill_process(pid, Signal::INT);
    }
    tokio::select! {
        _ = child.wait() => return,
        () = tokio::time::sleep(launch.ladder.interrupt) => {}
        () = launch.hurried() => {}
    }
    descendants::end(launch.run, *id, launch.patience(launch.ladder.terminate)).await;
    // Should it have hidden from us, it is still our child.
    if let Err(error) = child.kill().await {
        tracing::warn!(%error, run.id = %launch.run, "the engine cannot be killed");
    }
}

/// An engine need not read all of its message; whether it did shows in what it does.
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
    Finish::Told(failed(FailureKind::EngineMissing, text))
}

fn failed(kind: FailureKind, text: String) -> End {
    End::Failed { kind, text }
}
