//! Durable runs: started once, found again, ended and removed, over any number of connections and restarts.

use uuid::Uuid;

use super::script::{Kept, Script, Start};
use super::{Command, ExecError, Offsets, RunAddress, RunState};
use crate::coder::Client;

impl Client {
    /// Starts a command under this id, and returns when it runs. However often it is asked, and whatever became of
    /// earlier answers, the command runs once; also an id that was removed is not run again.
    pub async fn run_start(&self, agent: Uuid, run: Uuid, command: &Command) -> Result<RunState, ExecError> {
        command.check()?;
        let address = RunAddress { agent, run, container: command.container.clone() };
        let start = Start { command: command.clone(), kept: Kept::Durably };
        self.ask_state(&address, |script| script.start(&start).tell_state()).await
    }

    /// How long the streams of an ended run were, where more was written than is kept; else less than was followed.
    pub async fn run_written(&self, address: &RunAddress) -> Result<Offsets, ExecError> {
        let answer = self.ask(address, Script::tell_written).await?;
        let text = String::from_utf8_lossy(&answer);
        let mut numbers = text.split(' ').map(|number| number.trim().parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Ok(Offsets { stdout: next(), stderr: next() })
    }

    /// Makes sure that a run which has not started never will, however late a start comes; says what there is.
    pub async fn run_forestall(&self, address: &RunAddress) -> Result<RunState, ExecError> {
        self.ask_state(address, |script| script.forestall().tell_state()).await
    }

    /// Ends a run with all its descendants: asks them, and kills who does not listen. Returns when none is left.
    pub async fn run_cancel(&self, address: &RunAddress) -> Result<RunState, ExecError> {
        self.ask_state(address, |script| script.cancel().tell_state()).await
    }

    /// Forgets an ended run, for good: its id is never run again. What is left of a lost one is ended before.
    pub async fn run_remove(&self, address: &RunAddress) -> Result<(), ExecError> {
        match self.ask_state(address, |script| script.remove().tell_state()).await? {
            RunState::Running => Err(ExecError::Running),
            RunState::Ended(_) | RunState::Unknown | RunState::Removed => Ok(()),
        }
    }

    async fn ask_state(
        &self,
        address: &RunAddress,
        question: impl Fn(Script) -> Script,
    ) -> Result<RunState, ExecError> {
        RunState::parse(&self.ask(address, question).await?)
    }
}
