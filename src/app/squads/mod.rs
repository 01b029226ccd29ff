//! Squads: members of different roles that each work once in a workspace, started by callers and seen by them.

mod accept;
mod output;
mod status;
mod workspace;

use std::time::Duration;

use super::agents::RequestToken;
use crate::domain::run::RunStream;
use crate::domain::squad::{ExecutionMode, Squad, StateMode};
use crate::engine::EngineWord;

pub use output::{OutputPage, SquadOutput};
pub use status::SquadOverview;

/// How squads are run.
#[derive(Debug, Clone)]
pub struct SquadOptions {
    pub state_mode: StateMode,
    /// None: parallel, unless the engine takes one at a time.
    pub execution_mode: Option<ExecutionMode>,
    pub delay: Duration,
    /// For each member.
    pub timeout: Duration,
    /// Of members, where their engine takes one; otherwise the engine's own choice.
    pub model: Option<String>,
    /// Where members work that nobody gave an agent.
    pub runs_project: Option<String>,
    /// The longest that a caller is kept waiting; none: until the squad is done.
    pub longest_wait: Option<Duration>,
}

impl SquadOptions {
    /// Some engines lose track when two of them run at once.
    fn mode(&self, engine: EngineWord) -> ExecutionMode {
        let usual = match engine {
            EngineWord::CursorAgent => ExecutionMode::Sequential,
            EngineWord::Auto | EngineWord::Claude | EngineWord::Codex => ExecutionMode::Parallel,
            EngineWord::Custom | EngineWord::Demo => ExecutionMode::Parallel,
        };
        self.execution_mode.unwrap_or(usual)
    }
}

#[derive(Debug, Clone)]
pub struct StartSquad {
    pub members: Vec<NewMember>,
    /// JSON that comes back with the squad.
    pub metadata: Option<String>,
    pub request: Option<RequestToken>,
}

#[derive(Debug, Clone)]
pub struct NewMember {
    pub role: String,
    pub task: String,
    pub cwd: Option<String>,
    /// The conversation to go on with; none begins a new one.
    pub chat: Option<String>,
    pub agent: Option<String>,
}

/// Which part of what a member wrote.
#[derive(Debug, Clone)]
pub struct ShowOutput {
    pub squad: String,
    pub member: String,
    pub stream: RunStream,
    pub offset: u64,
    pub limit: u64,
}

/// A squad and the beginning of what its members wrote.
#[derive(Debug, Clone)]
pub struct SquadShown {
    pub squad: Squad,
    /// In the order of the members.
    pub outputs: Vec<SquadOutput>,
}
