//! One engine process from its start to the end of its last descendant.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio_util::sync::CancellationToken;

use super::descendants::{self, MARKER};
use super::options::Ladder;
use super::output::Lines;
use crate::domain::id::RunId;
use crate::engine::{End, Engine, Event, Exit, FailureKind, Invocation, Reader, Usage};

/// The runner's own business, which no engine needs to know.
const PRIVATE: [&str; 4] = ["CODER_AGENT_TOKEN", "CODER_SESSION_TOKEN", "FLEET_AGENT_SOCKET", "FLEET_TOKEN"];
const CHUNK: usize = 64 * 1024;
const MAX_STDERR: usize = 8 * 1024;
/// Once all processes are gone their pipes are closed; one that escaped us does not hold up the rest.
const DRAIN: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) message: &'a str,
    pub(super) directory: &'a Path,
    pub(super) run: RunId,
    pub(super) ladder: Ladder,
}

/// What came of it; no end when it was interrupted.
#[derive(Debug, PartialEq)]
pub(super) struct Finished {
    pub(super) end: Option<End>,
    pub(super) usage: Usage,
}

/// Runs the engine and hands on what it says. When this returns, no process of the run is left.
pub(super) async fn run(
    launch: Launch<'_>,
    interrupt: &CancellationToken,
    heard: impl FnMut(&str),
) -> Finished {
    let invocation = launch.engine.invocation(launch.message);
    let mut child = match spawn(&launch, &invocation) {
        Ok(child) => child,
        Err(error) => return missing(&invocation, &error),
    };
    let mut hearing = Hearing { reader: launch.engine.reader(), usage: Usage::default(), heard };
    let mut stderr = Vec::new();
    let stopped = {
        let (stdin, stdout, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let talk = async {
            tokio::join!(feed(stdin, &invocation.stdin), hearing.listen(stdout), tail(errors, &mut stderr))
        };
        with_talk(ended(&mut child, &launch, interrupt), talk).await
    };
    let end = match stopped {
        Stopped::Interrupted => None,
        Stopped::Ended(Ok(status)) => {
            let stderr = String::from_utf8_lossy(&stderr).into_owned();
            Some(hearing.reader.end(&Exit { status, stderr }))
        }
        Stopped::Ended(Err(error)) => Some(failed(FailureKind::Crashed, format!("lost the engine: {error}"))),
    };
    Finished { end, usage: hearing.usage }
}

/// How the process came to its end.
enum Stopped {
    Ended(io::Result<ExitStatus>),
    Interrupted,
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

fn spawn(launch: &Launch<'_>, invocation: &Invocation) -> io::Result<Child> {
    let mut command = Command::new(&invocation.program);
    command.args(&invocation.arguments).current_dir(launch.directory);
    for variable in PRIVATE {
        command.env_remove(variable);
    }
    command.envs(invocation.environment.iter().cloned()).env(MARKER, launch.run.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that Ctrl-C at the runner's terminal reaches the engine by our ladder only.
    command.process_group(0).kill_on_drop(true).spawn()
}

/// Waits for the engine's end, bringing it about when asked to, and leaves nothing of the run behind.
async fn ended(child: &mut Child, launch: &Launch<'_>, interrupt: &CancellationToken) -> Stopped {
    let stopped = tokio::select! {
        biased;
        status = child.wait() => Stopped::Ended(status),
        () = interrupt.cancelled() => {
            climb(child, launch).await;
            Stopped::Interrupted
        }
    };
    descendants::end(launch.run, launch.ladder.terminate).await;
    stopped
}

/// Asks, then insists, then forces.
async fn climb(child: &mut Child, launch: &Launch<'_>) {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It has not been waited for, so the number is still its own.
        let _gone = kill_process(pid, Signal::INT);
    }
    if tokio::time::timeout(launch.ladder.interrupt, child.wait()).await.is_ok() {
        return;
    }
    descendants::end(launch.run, launch.ladder.terminate).await;
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

struct Hearing<H> {
    reader: Box<dyn Reader>,
    usage: Usage,
    heard: H,
}

impl<H: FnMut(&str)> Hearing<H> {
    async fn listen(&mut self, stdout: Option<impl AsyncRead + Unpin>) {
        let Some(mut stdout) = stdout else { return };
        let mut lines = Lines::default();
        let mut chunk = vec![0; CHUNK];
        while let Ok(n_read @ 1..) = stdout.read(&mut chunk).await {
            let mut said = String::new();
            lines.push(&chunk[..n_read], |line| self.line(line, &mut said));
            self.tell(&said);
        }
        let mut said = String::new();
        lines.finish(|line| self.line(line, &mut said));
        self.tell(&said);
    }

    fn line(&mut self, line: &str, said: &mut String) {
        for event in self.reader.line(line) {
            match event {
                Event::Text(text) => {
                    said.push_str(&text);
                    said.push('\n');
                }
                Event::Usage(usage) => self.usage = usage,
            }
        }
    }

    fn tell(&mut self, said: &str) {
        if !said.is_empty() {
            (self.heard)(said);
        }
    }
}

fn missing(invocation: &Invocation, error: &io::Error) -> Finished {
    let text = format!("cannot start {}: {error}", invocation.program.display());
    Finished { end: Some(failed(FailureKind::EngineMissing, text)), usage: Usage::default() }
}

fn failed(kind: FailureKind, text: String) -> End {
    End::Failed { kind, text }
}
