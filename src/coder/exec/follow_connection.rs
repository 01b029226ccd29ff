//! One connection to a run: polls for news and parses the responses.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::frames::{Frames, Piece};
use super::terminal::Terminal;
use super::{ExecError, OutputStream, RunEnd, RunState};
use crate::durations::Backoff;

/// The pause after a poll without news: short at first, for commands that end soon.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(4), Duration::from_millis(500));

/// An event of a run.
#[derive(Debug)]
pub(super) enum RunUpdate {
    Output(OutputStream, Bytes),
    End(RunEnd),
}

/// A terminal in which the follow script runs.
#[derive(Debug)]
pub(super) struct FollowConnection {
    terminal: Terminal,
    frames: Frames,
    section: Section,
    /// The state received so far; it may arrive in parts.
    word: Vec<u8>,
    is_quiet: bool,
    /// Polls without news since the last output.
    n_quiet: u32,
}

/// The current section of a response.
#[derive(Debug, Clone, Copy)]
enum Section {
    Output(OutputStream),
    State,
}

impl FollowConnection {
    pub(super) fn new(terminal: Terminal, mark: &str) -> Self {
        Self {
            terminal,
            frames: Frames::new(mark),
            section: Section::Output(OutputStream::Stdout),
            word: Vec::new(),
            is_quiet: true,
            n_quiet: 0,
        }
    }

    /// Waits for output or the end; polls as often as needed.
    pub(super) async fn next(&mut self) -> Result<RunUpdate, ExecError> {
        loop {
            match (self.piece().await?, self.section) {
                (Piece::Bytes(bytes), Section::Output(stream)) => {
                    self.is_quiet = false;
                    return Ok(RunUpdate::Output(stream, bytes));
                }
                (Piece::Bytes(bytes), Section::State) => self.word.extend_from_slice(&bytes),
                (Piece::Mark, Section::Output(OutputStream::Stdout)) => {
                    self.section = Section::Output(OutputStream::Stderr);
                }
                (Piece::Mark, Section::Output(OutputStream::Stderr)) => self.section = Section::State,
                (Piece::Mark, Section::State) => {
                    if let Some(end) = self.response_end().await? {
                        return Ok(RunUpdate::End(end));
                    }
                }
            }
        }
    }

    /// Requests the removal of the run and closes the terminal.
    pub(super) async fn remove(mut self) -> Result<(), ExecError> {
        self.terminal.send("remove\n").await?;
        self.terminal.close().await;
        Ok(())
    }

    async fn piece(&mut self) -> Result<Piece, ExecError> {
        loop {
            if let Some(piece) = self.frames.next() {
                return Ok(piece);
            }
            let bytes = self.terminal.next().await?;
            self.frames.push(&bytes.ok_or_else(|| ExecError::cut("the terminal closed"))?);
        }
    }

    /// A response is complete: returns the end, or polls again.
    async fn response_end(&mut self) -> Result<Option<RunEnd>, ExecError> {
        match RunState::parse(&std::mem::take(&mut self.word))? {
            RunState::Ended(end) => Ok(Some(end)),
            RunState::Running => self.poll_again().await.map(|()| None),
            RunState::Unknown | RunState::Removed => Err(ExecError::Unknown),
        }
    }

    async fn poll_again(&mut self) -> Result<(), ExecError> {
        self.n_quiet = if self.is_quiet { self.n_quiet + 1 } else { 0 };
        self.is_quiet = true;
        self.section = Section::Output(OutputStream::Stdout);
        sleep(PAUSES.pause(self.n_quiet)).await;
        self.terminal.send("more\n").await
    }
}
