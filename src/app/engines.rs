//! Selects the engine of a workspace without our runner: the project's, else the server's, else an installed one.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use moka::future::Cache;
use uuid::Uuid;

use super::Fleet;
use super::error::Error;
use super::snapshot::AgentState;
use crate::coder::exec::{Command, Exit, Inherited, Output};
use crate::domain::environment;
use crate::domain::hosting::Hosting;
use crate::domain::project::Project;
use crate::engine::codex::{self, Sandbox};
use crate::engine::commands::CommandEngines;
use crate::engine::{self, EngineWord, discovery, installed};

/// Prints a line `NAME PATH` per installed program.
const LOOK: &str = r#"for name do path=$(command -v "$name") && echo "$name $path"; done; true"#;
const MOST_AGENTS: u64 = 10_000;
/// The name of the installed fleet program.
const OWN_NAME: &str = "fleet-mcp";

/// Probe results per workspace agent. A workspace without an engine is probed again, since an engine may be installed
/// or permitted later.
#[derive(Debug)]
pub(in crate::app) struct FoundEngines {
    /// The engine that `auto` resolves to.
    words: Cache<Uuid, EngineWord>,
    sandboxes: Cache<Uuid, Sandbox>,
}

impl Default for FoundEngines {
    fn default() -> Self {
        Self { words: Cache::new(MOST_AGENTS), sandboxes: Cache::new(MOST_AGENTS) }
    }
}

/// The server's default engine and how engines are started.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    pub word: EngineWord,
    /// The path of this program, valid in workspaces on this machine.
    pub own_program: PathBuf,
    /// The directories of PATH on this machine.
    pub path: OsString,
    /// How each engine is called by a command in a workspace.
    pub commands: CommandEngines,
}

impl Fleet {
    /// The engine for an agent of its project.
    pub(in crate::app) async fn engine_of(&self, state: &AgentState) -> Result<EngineWord, Error> {
        let found = self.discovered()?;
        let project = found.project(&state.agent.project);
        self.engine_in(state, project.and_then(|info| info.project.engine.as_deref())).await
    }

    /// The engine that the project names, else the server's; `auto` is resolved by a probe of the workspace.
    pub(in crate::app) async fn engine_in(
        &self,
        state: &AgentState,
        project_engine: Option<&str>,
    ) -> Result<EngineWord, Error> {
        let word = match project_engine {
            Some(word) => engine::by_word(word).map_err(|error| unavailable(state, error.to_string()))?,
            None => self.options().engine.word,
        };
        match word {
            EngineWord::Auto => self.engine_found(state).await,
            EngineWord::Claude | EngineWord::Codex | EngineWord::CursorAgent => Ok(word),
            EngineWord::Custom | EngineWord::Demo => Ok(word),
        }
    }

    /// Refuses an agent whose project names an engine that cannot be started. Only embedded agents can be checked:
    /// the programs of a deployment's workspaces are unknown before they start.
    pub(super) fn check_engine(&self, project: &Project) -> Result<(), Error> {
        let Some(word) = project.engine.as_deref() else { return Ok(()) };
        let name = || project.name.clone();
        let unknown = |_| Error::EngineUnknown { project: name(), word: word.to_owned() };
        let word = engine::by_word(word).map_err(unknown)?;
        let is_program = match word {
            EngineWord::Claude | EngineWord::Codex | EngineWord::CursorAgent => true,
            EngineWord::Auto | EngineWord::Custom | EngineWord::Demo => false,
        };
        let is_here = matches!(self.hosting(), Hosting::Embedded(_));
        if is_here && is_program && installed::program(word.word(), &self.options().engine.path).is_none() {
            return Err(Error::EngineMissing { project: name(), word });
        }
        Ok(())
    }

    /// The command of the fleet program in a workspace, which contains the demo engine.
    pub(in crate::app) fn own_program(&self) -> PathBuf {
        match self.hosting() {
            Hosting::Embedded(_) => self.options().engine.own_program.clone(),
            Hosting::Deployment => PathBuf::from(OWN_NAME),
        }
    }

    /// Probes whether Codex can sandbox commands there: without its sandbox all commands fail, while the run still
    /// reports success.
    pub(super) async fn sandbox_in(&self, state: &AgentState) -> Result<Sandbox, Error> {
        let agent = state.workspace_agent()?;
        let cache = &self.0.engines.sandboxes;
        if let Some(known) = cache.get(&agent).await {
            return Ok(known);
        }
        let command = Command {
            timeout: self.limits().workspace_command,
            inherited: Inherited::Only(&environment::ALLOWED),
            ..Command::new([EngineWord::Codex.word()].into_iter().chain(codex::TRY_SANDBOX))
        };
        let tried = self.command_output(state, (agent, command)).await?;
        match tried.exit {
            Exit::Code(0) => {
                cache.insert(agent, Sandbox::Workspace).await;
                Ok(Sandbox::Workspace)
            }
            Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => Ok(Sandbox::Impossible),
        }
    }

    async fn engine_found(&self, state: &AgentState) -> Result<EngineWord, Error> {
        let agent = state.workspace_agent()?;
        let cache = &self.0.engines.words;
        if let Some(known) = cache.get(&agent).await {
            return Ok(known);
        }
        let programs = self.programs_in(state, agent).await?;
        let there = discovery::find_clis(|program| programs.get(program).cloned());
        let nothing = "neither claude nor codex is installed in the workspace; install one of them there, \
            set the project's engine, or use --engine demo";
        let first = there.first().ok_or_else(|| unavailable(state, nothing.to_owned()))?.word;
        cache.insert(agent, first).await;
        Ok(first)
    }

    async fn programs_in(&self, state: &AgentState, agent: Uuid) -> Result<HashMap<String, PathBuf>, Error> {
        let names = discovery::programs();
        let command = Command {
            timeout: self.limits().workspace_command,
            ..Command::new(["sh", "-c", LOOK, "engines"].into_iter().chain(names))
        };
        let output = self.command_output(state, (agent, command)).await?;
        Ok(listed(&String::from_utf8_lossy(&output.stdout)))
    }

    async fn command_output(
        &self,
        state: &AgentState,
        (agent, command): (Uuid, Command),
    ) -> Result<Output, Error> {
        let output = self
            .workspace_exec(agent, &state.agent.project)
            .exec(command, self.limits().workspace_answer)
            .await;
        output.map_err(|error| Error::CoderUnavailable(format!("the workspace does not respond: {error}")))
    }
}

fn listed(text: &str) -> HashMap<String, PathBuf> {
    let lines = text.lines().filter_map(|line| line.trim().split_once(' '));
    lines.map(|(name, path)| (name.to_owned(), PathBuf::from(path))).collect()
}

fn unavailable(state: &AgentState, reason: String) -> Error {
    Error::EngineUnavailable { name: state.agent.name.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_lists_what_it_has_a_line_each_and_noise_is_none_of_them() {
        let there = listed("welcome\ncodex /usr/bin/codex\r\nclaude /home/a b/claude\n");
        let expected = [("codex", "/usr/bin/codex"), ("claude", "/home/a b/claude")];
        assert_eq!(there, expected.map(|(name, path)| (name.to_owned(), PathBuf::from(path))).into());
        let found = discovery::find_clis(|program| there.get(program).cloned());
        assert_eq!(found.first().map(|found| found.word), Some(EngineWord::Claude));
    }
}
