//! Runs a short script in a workspace and returns its output.

use super::frames::{Frames, Piece, fresh_mark};
use super::outage::Outage;
use super::script::Script;
use super::terminal::Terminal;
use super::{ExecError, RunAddress};
use crate::coder::Client;

/// Limit on a script's output; the output of commands is transferred differently.
const ANSWER_LIMIT: usize = 1 << 20;

impl Client {
    /// Repeats the script until it returns output; only for idempotent scripts.
    pub(super) async fn ask(
        &self,
        address: &RunAddress,
        question: impl Fn(Script) -> Script,
    ) -> Result<Vec<u8>, ExecError> {
        let mut outage = Outage::none(self.exec_limits());
        loop {
            match self.ask_once(address, &question).await {
                Ok(answer) => return Ok(answer),
                Err(error) => outage.wait_after(error).await?,
            }
        }
    }

    /// After a broken connection it is unknown whether the script ran.
    async fn ask_once(
        &self,
        address: &RunAddress,
        question: impl Fn(Script) -> Script,
    ) -> Result<Vec<u8>, ExecError> {
        let mut terminal = Terminal::open(self, address.agent, address.container.as_deref()).await?;
        let mark = fresh_mark();
        terminal.run(&question(Script::new(address.run, &mark, &self.exec_limits())).into_text()).await?;
        answer(terminal, &mark).await
    }
}

async fn answer(mut terminal: Terminal, mark: &str) -> Result<Vec<u8>, ExecError> {
    let mut frames = Frames::new(mark);
    let mut answer = Vec::new();
    while let Some(bytes) = terminal.next().await? {
        frames.push(&bytes);
        while let Some(piece) = frames.next() {
            match piece {
                Piece::Bytes(bytes) => answer.extend_from_slice(&bytes),
                Piece::Mark => return Ok(answer),
            }
        }
        if answer.len() > ANSWER_LIMIT {
            return Err(ExecError::Terminal { reason: "it sends output without end".to_owned() });
        }
    }
    Err(ExecError::cut("the terminal closed before it responded"))
}
