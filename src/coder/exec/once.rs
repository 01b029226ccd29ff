//! Runs one command from start to end in one call.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::timeout;
use uuid::Uuid;

use super::follow::Follow;
use super::script::{Retention, Start};
use super::{Command, ExecError, Exit, Offsets, Output, OutputStream, RunAddress, RunEnd, RunEvent};
use crate::coder::Client;

/// Time beyond the command's own timeout: for connections, and for terminating processes that resist.
const OVERHEAD: Duration = Duration::from_secs(150);

impl Client {
    /// Runs a command and returns its result. Broken connections are reopened, and the command runs once in any
    /// case. A caller that drops this future leaves the command running, at most until its timeout.
    pub async fn exec(&self, agent: Uuid, command: &Command) -> Result<Output, ExecError> {
        command.check()?;
        let address = RunAddress { agent, run: Uuid::now_v7(), container: command.container.clone() };
        let start = Start { command: command.clone(), retention: Retention::Once };
        let follow = Follow::new(self.clone(), address, Offsets::default()).starting(start);
        let late = Err(ExecError::cut("the command did not end in time"));
        timeout(command.timeout + OVERHEAD, collect(follow, command.output_limit)).await.unwrap_or(late)
    }
}

async fn collect(mut follow: Follow, limit: usize) -> Result<Output, ExecError> {
    let (mut stdout, mut stderr) = (Collected::new(limit), Collected::new(limit));
    let end = loop {
        match follow.next().await? {
            RunEvent::Output { stream: OutputStream::Stdout, bytes, .. } => stdout.push(&bytes),
            RunEvent::Output { stream: OutputStream::Stderr, bytes, .. } => stderr.push(&bytes),
            RunEvent::Ended(end) => break end,
        }
    };
    // A later call removes the leftovers.
    if let Err(error) = follow.remove().await {
        tracing::debug!(%error, "cannot remove a run that has ended");
    }
    Ok(Output {
        exit: exit(end)?,
        truncated: stdout.is_truncated || stderr.is_truncated,
        stdout: stdout.bytes.freeze(),
        stderr: stderr.bytes.freeze(),
    })
}

fn exit(end: RunEnd) -> Result<Exit, ExecError> {
    match end {
        RunEnd::Exited(exit) => Ok(exit),
        RunEnd::Canceled | RunEnd::Lost => Err(ExecError::Lost),
    }
}

/// The beginning of a stream.
struct Collected {
    bytes: BytesMut,
    limit: usize,
    is_truncated: bool,
}

impl Collected {
    fn new(limit: usize) -> Self {
        Self { bytes: BytesMut::new(), limit, is_truncated: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.limit - self.bytes.len();
        let (kept, rest) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(kept);
        self.is_truncated |= !rest.is_empty();
    }
}
