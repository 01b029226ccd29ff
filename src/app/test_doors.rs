//! What tests may call of the mechanisms below tasks and squads. A normal build has none of it.

use super::Fleet;
use super::error::Error;
use super::runs::NewRun;
use super::snapshot::AgentState;
use crate::coder::exec::Command;
use crate::domain::id::{AgentId, RunId};
use crate::domain::run::CancelCause;
use crate::engine::EngineWord;

impl Fleet {
    pub async fn test_run_start(&self, agent: AgentId, command: Command) -> Result<RunId, Error> {
        let (id, purpose) = (RunId::fresh(), "a test".to_owned());
        self.run_start_as(id, NewRun { agent, purpose, command, engine: None }).await?;
        Ok(id)
    }

    pub async fn test_run_cancel(&self, id: RunId) -> Result<(), Error> {
        self.run_cancel(id, CancelCause::Request).await
    }

    /// The number of calls that wait and end with their token.
    pub fn test_n_waits(&self) -> usize {
        self.0.tokens.receiver_count()
    }

    pub async fn test_engine_in(&self, state: &AgentState, word: Option<&str>) -> Result<EngineWord, Error> {
        self.engine_in(state, word).await
    }
}
