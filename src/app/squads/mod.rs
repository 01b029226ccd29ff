//! Squads: members of different roles, each of which works once in a workspace.

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
pub use status::{SquadOverview, SquadWait};

/// The settings of squads.
#[derive(Debug, Clone)]
pub struct SquadOptions {
    pub state_mode: StateMode,
    /// None: parallel, unless the engine supports only one run at a time.
    pub execution_mode: Option<ExecutionMode>,
    pub delay: Duration,
    /// Applies to each member.
    pub timeout: Duration,
    /// For engines with a choice of model; none for the engine's default.
    pub model: Option<String>,
    /// The project for members without an agent.
    pub runs_project: Option<String>,
    /// The limit of a blocking call; none to wait for the end of the squad.
    pub longest_wait: Option<Duration>,
}

impl SquadOptions {
    /// Some engines mix up concurrent runs.
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
    /// JSON that is returned with the squad.
    pub metadata: Option<String>,
    pub request: Option<RequestToken>,
}

#[derive(Debug, Clone)]
pub struct NewMember {
    pub role: String,
    pub task: String,
    pub cwd: Option<String>,
    /// The conversation to continue; none starts a new one.
    pub chat: Option<String>,
    pub agent: Option<String>,
}

/// A range of a member's output.
#[derive(Debug, Clone)]
pub struct ShowOutput {
    pub squad: String,
    pub member: String,
    pub stream: RunStream,
    pub offset: u64,
    pub limit: u64,
}

/// A squad and the beginnings of its members' outputs.
#[derive(Debug, Clone)]
pub struct SquadShown {
    pub squad: Squad,
    /// In order of the members.
    pub outputs: Vec<SquadOutput>,
}
