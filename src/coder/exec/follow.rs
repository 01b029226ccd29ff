//! Follows a run from known offsets, over as many connections as it takes.

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use uuid::Uuid;

use super::follow_connection::{FollowConnection, RunUpdate};
use super::frames::fresh_mark;
use super::outage::Outage;
use super::script::{Script, Start};
use super::terminal::Terminal;
use super::{ExecError, RunEnd};
use crate::coder::Client;

/// One in this many starts removes the leftovers of old runs.
const SWEEP_EVERY: u8 = 32;

/// One of a command's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// How much of each stream the caller has already read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offsets {
    pub stdout: u64,
    pub stderr: u64,
}

/// Events of a run, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    Output {
        stream: OutputStream,
        offset: u64,
        bytes: Bytes,
    },
    /// The last event.
    Ended(RunEnd),
}

/// The address of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAddress {
    pub agent: Uuid,
    pub run: Uuid,
    /// The container it was started in, if any.
    pub container: Option<String>,
}

impl Client {
    /// Follows a run to its end. Broken connections are reopened without losing or repeating output; a slow reader
    /// delays the command in the workspace instead of filling our memory.
    pub fn run_follow(
        &self,
        address: &RunAddress,
        from: Offsets,
    ) -> impl Stream<Item = Result<RunEvent, ExecError>> + Send + use<> {
        unfold(Some(Follow::new(self.clone(), address.clone(), from)), async |follow| {
            let mut follow = follow?;
            let event = follow.next().await;
            let is_last = !matches!(event, Ok(RunEvent::Output { .. }));
            Some((event, if is_last { None } else { Some(follow) }))
        })
    }
}

/// A run that is being followed.
#[derive(Debug)]
pub(super) struct Follow {
    client: Client,
    address: RunAddress,
    offsets: Offsets,
    /// Sent with every connection, since any of them may be the first to succeed.
    start: Option<Start>,
    connection: Option<FollowConnection>,
    outage: Outage,
}

impl Follow {
    pub(super) fn new(client: Client, address: RunAddress, offsets: Offsets) -> Self {
        let outage = Outage::none(client.exec_limits());
        Self { client, address, offsets, start: None, connection: None, outage }
    }

    pub(super) fn starting(self, start: Start) -> Self {
        Self { start: Some(start), ..self }
    }

    pub(super) async fn next(&mut self) -> Result<RunEvent, ExecError> {
        loop {
            match self.step().await {
                Ok(event) => {
                    self.outage = Outage::none(self.client.exec_limits());
                    return Ok(event);
                }
                Err(error) => {
                    self.connection = None;
                    self.outage.wait_after(error).await?;
                }
            }
        }
    }

    /// Removes the run, over the connection that reported its end.
    pub(super) async fn remove(mut self) -> Result<(), ExecError> {
        match self.connection.take() {
            Some(connection) => connection.remove().await,
            None => Ok(()),
        }
    }

    async fn step(&mut self) -> Result<RunEvent, ExecError> {
        if self.connection.is_none() {
            self.connection = Some(self.connect().await?);
        }
        let Some(connection) = &mut self.connection else { return Err(ExecError::cut("no connection")) };
        match connection.next().await? {
            RunUpdate::Output(stream, bytes) => Ok(self.advance(stream, bytes)),
            RunUpdate::End(end) => Ok(RunEvent::Ended(end)),
        }
    }

    fn advance(&mut self, stream: OutputStream, bytes: Bytes) -> RunEvent {
        let known = match stream {
            OutputStream::Stdout => &mut self.offsets.stdout,
            OutputStream::Stderr => &mut self.offsets.stderr,
        };
        let offset = *known;
        *known += bytes.len() as u64;
        RunEvent::Output { stream, offset, bytes }
    }

    async fn connect(&mut self) -> Result<FollowConnection, ExecError> {
        let RunAddress { agent, container, .. } = &self.address;
        let mut terminal = Terminal::open(&self.client, *agent, container.as_deref()).await?;
        let mark = fresh_mark();
        terminal.run(&self.script(&mark)).await?;
        Ok(FollowConnection::new(terminal, &mark))
    }

    fn script(&self, mark: &str) -> String {
        let script = Script::new(self.address.run, mark, &self.client.exec_limits());
        let script = match &self.start {
            Some(start) if is_sweeping(self.address.run) => script.start(start).sweep(),
            Some(start) => script.start(start),
            None => script,
        };
        script.follow(self.offsets).into_text()
    }
}

/// Depends only on the id, so that all attempts of one start behave the same.
fn is_sweeping(run: Uuid) -> bool {
    run.as_bytes().last().is_some_and(|byte| byte % SWEEP_EVERY == 0)
}
