//! Runs one terminal: starts its command, copies bytes both ways and ends the whole session with it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::BytesMut;
use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::{PtyCommand, PtyInput, PtySpec, SessionLeader};
use crate::local::LocalLimits;
use crate::process::{EndLimits, child_of, end_session, kill, restore_for_children};

const INPUT_QUEUE: usize = 16;
const READ_SIZE: usize = 16 * 1024;
const TERMINAL: &str = "xterm-256color";
/// The thread that starts a process waits until the process has entered its directory, so this is never an agent's.
const DIRECTORY: &str = "/";

/// A terminal that clients can attach to before its command runs.
pub(super) struct Terminal {
    pub(super) shared: Arc<Shared>,
    input: mpsc::Receiver<PtyInput>,
}

impl Terminal {
    pub(super) fn new() -> Self {
        let (sender, input) = mpsc::channel(INPUT_QUEUE);
        Self { shared: Arc::new(Shared::new(sender)), input }
    }
}

/// A running command in a terminal.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    child: Child,
    lead: SessionLeader,
    reader: OwnedReadPty,
    writer: OwnedWritePty,
    input: mpsc::Receiver<PtyInput>,
}

impl Session {
    pub(super) fn start(spec: &PtySpec, Terminal { shared, input }: Terminal) -> io::Result<Self> {
        let (pty, pts) = pty_process::open().map_err(plain)?;
        pty.resize(Size::new(spec.height, spec.width)).map_err(plain)?;
        restore_for_children()?;
        let child = match spec.lead {
            SessionLeader::Started => command(spec).spawn(pts).map_err(plain)?,
            SessionLeader::Child => without_terminal(spec, &pts)?,
        };
        let (reader, writer) = pty.into_split();
        Ok(Self { shared, child, lead: spec.lead, reader, writer, input })
    }

    /// Runs until the command ends, no client has been attached for a while, or the server stops.
    pub(super) async fn run(self, limits: &LocalLimits, stop: CancellationToken) {
        let Self { shared, mut child, lead, reader, writer, input } = self;
        let has_ended = tokio::select! {
            () = pass_output(reader, &shared) => true,
            () = pass_input(writer, input) => true,
            () = shared.abandoned(limits.terminal_idle) => false,
            () = stop.cancelled() => false,
        };
        shared.end();
        let ended = match has_ended {
            true => end_leader(&mut child, lead, limits).await,
            false => end(&mut child, lead, limits).await,
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot terminate a terminal's processes");
        }
    }
}

fn command(spec: &PtySpec) -> Command {
    let mut words = words(spec).into_iter();
    let command = Command::new(words.next().unwrap_or_default()).args(words);
    command.current_dir(DIRECTORY).env_clear().envs(&spec.environment).env("TERM", TERMINAL)
}

/// Starts the process without a controlling terminal, which its child takes.
fn without_terminal(spec: &PtySpec, pts: &impl AsFd) -> io::Result<Child> {
    let mut words = words(spec).into_iter();
    let mut command = tokio::process::Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(DIRECTORY).env_clear().envs(&spec.environment).env("TERM", TERMINAL);
    let stream = || pts.as_fd().try_clone_to_owned();
    command.stdin(stream()?).stdout(stream()?).stderr(stream()?).spawn()
}

fn words(spec: &PtySpec) -> Vec<&OsStr> {
    let words = match &spec.command {
        PtyCommand::LoginShell => {
            vec![spec.environment.get("SHELL").map_or("/bin/sh", String::as_str), "-l"]
        }
        PtyCommand::Script(script) => vec!["/bin/sh", "-c", script],
    };
    spec.prefix.iter().map(OsString::as_os_str).chain(words.into_iter().map(OsStr::new)).collect()
}

/// Ends with the command: when the session's leader exits, the kernel hangs up the terminal, and reads fail with
/// EIO after the last output.
async fn pass_output(mut reader: OwnedReadPty, shared: &Shared) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(READ_SIZE);
        match reader.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => shared.publish(buffer.split().freeze()).await,
        }
    }
}

async fn pass_input(mut writer: OwnedWritePty, mut input: mpsc::Receiver<PtyInput>) {
    while let Some(input) = input.recv().await {
        let passed = match input {
            PtyInput::Data(data) => writer.write_all(data.as_bytes()).await,
            PtyInput::Resize { width, height } => writer.resize(Size::new(height, width)).map_err(plain),
        };
        if let Err(error) = passed {
            tracing::debug!(%error, "input came too late for a terminal");
        }
    }
}

/// A process that ignores the hangup keeps running, as under a real agent.
async fn end_leader(child: &mut Child, lead: SessionLeader, limits: &LocalLimits) -> io::Result<()> {
    match lead {
        SessionLeader::Started => return child.kill().await,
        // The parent reaps the leader and exits after it; killing the parent first would orphan the leader.
        SessionLeader::Child => {}
    }
    if let Ok(ended) = timeout(limits.terminal_follow, child.wait()).await {
        return ended.map(drop);
    }
    match leader(child, lead)? {
        Some(leader) => kill(leader)?,
        None => child.start_kill()?,
    }
    child.wait().await.map(drop)
}

/// Reaps the leader last: until then its pid names this session and no other.
async fn end(child: &mut Child, lead: SessionLeader, limits: &LocalLimits) -> io::Result<()> {
    let limits = EndLimits { term: limits.terminal_hangup, kill: limits.terminal_kill };
    match leader(child, lead)? {
        Some(leader) => end_session(leader, limits).await.map(drop)?,
        None => child.start_kill()?,
    }
    child.wait().await?;
    Ok(())
}

/// None if it has ended, or was never started.
fn leader(child: &Child, lead: SessionLeader) -> io::Result<Option<u32>> {
    match (child.id(), lead) {
        (None, _) => Ok(None),
        (Some(started), SessionLeader::Started) => Ok(Some(started)),
        (Some(started), SessionLeader::Child) => child_of(started),
    }
}

/// Keeps the error kind, which distinguishes a missing directory from exhausted terminals.
fn plain(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        error => io::Error::other(error.to_string()),
    }
}
