//! One terminal: starts its command, moves bytes both ways and ends the whole session with it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::{PtyCommand, PtyInput, PtySpec};
use crate::local::process::{EndLimits, end_session};

const INPUT_QUEUE: usize = 16;
const READ_SIZE: usize = 16 * 1024;

/// The kernel hangs up when the terminal closes; who ignores that, or is just moving to a session of its own,
/// gets this long before it is killed.
const END_LIMITS: EndLimits = EndLimits { term: Duration::from_secs(1), kill: Duration::from_secs(5) };

/// A command that runs in a terminal.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    child: Child,
    reader: OwnedReadPty,
    writer: OwnedWritePty,
    input: mpsc::Receiver<PtyInput>,
}

impl Session {
    pub(super) fn start(spec: &PtySpec) -> io::Result<Self> {
        let (pty, pts) = pty_process::open().map_err(plain)?;
        pty.resize(Size::new(spec.height, spec.width)).map_err(plain)?;
        let child = command(spec).spawn(pts).map_err(plain)?;
        let (reader, writer) = pty.into_split();
        let (sender, input) = mpsc::channel(INPUT_QUEUE);
        Ok(Self { shared: Arc::new(Shared::new(sender)), child, reader, writer, input })
    }

    /// Runs until the command ends, nobody has been attached for `idle`, or we are stopped.
    pub(super) async fn run(self, idle: Duration, stop: CancellationToken) {
        let Self { shared, mut child, reader, writer, input } = self;
        let has_ended = tokio::select! {
            () = pass_output(reader, &shared) => true,
            () = pass_input(writer, input) => true,
            () = shared.abandoned(idle) => false,
            () = stop.cancelled() => false,
        };
        shared.end();
        let ended = if has_ended { end_leader(&mut child).await } else { end(&mut child).await };
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot end a terminal's processes");
        }
    }
}

fn command(spec: &PtySpec) -> Command {
    let command = match &spec.command {
        PtyCommand::LoginShell => {
            Command::new(spec.environment.get("SHELL").map_or("/bin/sh", String::as_str)).arg("-l")
        }
        PtyCommand::Script(script) => Command::new("/bin/sh").arg("-c").arg(script),
    };
    command.current_dir(&spec.directory).env_clear().envs(&spec.environment).env("TERM", "xterm-256color")
}

/// Ends with the command: when the session's leader exits, the kernel hangs the terminal up and reading it
/// fails with EIO once all output is read.
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

/// Whoever does not listen when the kernel hangs up lives on, as under a real agent.
async fn end_leader(child: &mut Child) -> io::Result<()> {
    child.kill().await
}

/// The leader is reaped last: as long as it is not, its pid names this session and no other.
async fn end(child: &mut Child) -> io::Result<()> {
    if let Some(leader) = child.id() {
        end_session(leader, END_LIMITS).await?;
    }
    child.wait().await?;
    Ok(())
}

/// Keeps the kind, which tells a missing directory from a machine out of terminals.
fn plain(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
        error => io::Error::other(error.to_string()),
    }
}
