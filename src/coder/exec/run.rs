//! Durable runs: started once, found again, ended and removed, across connections and restarts.

use uuid::Uuid;

use super::script::{Retention, Script, Start};
use super::{Command, ExecError, Offsets, RunAddress, RunState};
use crate::coder::Client;

impl Client {
    /// Starts a command under this id and returns once it runs. Repeated requests start the command only once; a
    /// removed id is not run again.
    pub async fn run_start(&self, agent: Uuid, run: Uuid, command: &Command) -> Result<RunState, ExecError> {
        command.check()?;
        let address = RunAddress { agent, run, container: command.container.clone() };
        let start = Start { command: command.clone(), retention: Retention::Durably };
        self.ask_state(&address, |script| script.start(&start).print_state()).await
    }

    /// The length of an ended run's streams if more was written than is kept; otherwise less than was followed.
    pub async fn run_written(&self, address: &RunAddress) -> Result<Offsets, ExecError> {
        let answer = self.ask(address, Script::print_written).await?;
        let text = String::from_utf8_lossy(&answer);
        let mut numbers = text.split(' ').map(|number| number.trim().parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Ok(Offsets { stdout: next(), stderr: next() })
    }

    /// Claims the id so that a late start has no effect; returns the current state.
    pub async fn run_forestall(&self, address: &RunAddress) -> Result<RunState, ExecError> {
        self.ask_state(address, |script| script.forestall().print_state()).await
    }

    /// Ends a run with all its descendants: TERM, then KILL. Returns once none is left.
    pub async fn run_cancel(&self, address: &RunAddress) -> Result<RunState, ExecError> {
        self.ask_state(address, |script| script.cancel().print_state()).await
    }

    /// Removes an ended run for good: its id is never run again. Remaining processes of a lost run are ended first.
    pub async fn run_remove(&self, address: &RunAddress) -> Result<(), ExecError> {
        match self.ask_state(address, |script| script.remove().print_state()).await? {
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
