//! All that the run of a task needs, found out in the workspace before anything is recorded or begun.

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::ground::{CodexSettings, Ground, Plot};
use crate::app::snapshot::AgentState;
use crate::domain::role::RoleKind;
use crate::domain::task::Task;
use crate::engine::codex::Sandbox;
use crate::engine::{Engine, EngineWord, Invocation, Request, Session, remote};

/// Can a task be run?
#[derive(Debug)]
pub(in crate::app) enum Readiness {
    Now(Errand),
    /// What this start of the agent is to be given is still on its way.
    Later,
    Never(String),
}

/// What to run for a task, and where its repository stands before.
#[derive(Debug)]
pub(in crate::app) struct Errand {
    pub(super) invocation: Invocation,
    /// Empty before the first commit; none where there is no repository.
    pub(in crate::app) head: Option<String>,
}

impl Fleet {
    pub(in crate::app) async fn task_errand(
        &self,
        state: &AgentState,
        task: &Task,
    ) -> Result<Readiness, Error> {
        if let Err(error) = self.check_container(&state.agent.project) {
            return Ok(Readiness::Never(format!("not started: {error}")));
        }
        let word = self.engine_of(state).await?;
        if word.calls_tools() && !self.is_provisioned(state) {
            return Ok(Readiness::Later);
        }
        let left = match self.budget_left(state) {
            Ok(left) => left,
            Err(error) => return Ok(Readiness::Never(format!("not started: {error}"))),
        };
        let unfit = |reason: String| Error::EngineUnavailable { name: state.agent.name.to_string(), reason };
        let sandbox = match word {
            EngineWord::Codex => self.sandbox_in(state).await?,
            EngineWord::Claude | EngineWord::CursorAgent | EngineWord::Custom => Sandbox::Workspace,
            EngineWord::Auto | EngineWord::Demo => Sandbox::Workspace,
        };
        let engine = remote::by_name(word, self.own_program(), sandbox).ok_or_else(|| {
            unfit(format!(
                "the engine {word} needs a workspace with a fleet-mcp runner; choose another engine"
            ))
        })?;
        let ground = self.task_ground(state, &*engine).await?;
        let head = ground.head.clone();
        let request = Request { max_cost_usd: left.max_cost_usd, ..self.task_request(state, task, ground) };
        let invocation = engine.invocation(&request).map_err(|error| unfit(error.to_string()))?;
        Ok(Readiness::Now(Errand { invocation, head }))
    }

    async fn task_ground(&self, state: &AgentState, engine: &dyn Engine) -> Result<Ground, Error> {
        let inside = self.inside(state.workspace_agent()?, &state.agent.project);
        let plot = Plot {
            cwd: None,
            generation: state.callback().map(|_| state.agent.sighting.generation),
            notes: engine.notes_file(),
            codex_settings: CodexSettings::wanted_by(engine.word()),
        };
        inside.ground(plot).await.map_err(|error| Error::CoderUnavailable(error.to_string()))
    }

    fn task_request(&self, state: &AgentState, task: &Task, ground: Ground) -> Request {
        let given = ground.given.as_deref();
        Request {
            role: given.and_then(|directory| self.role_prompt(state, directory)),
            fleet: given.and_then(|directory| state.fleet_access(directory)),
            notes: ground.notes,
            settings: ground.codex_settings,
            directory: ground.cwd.into(),
            repository: ground.repository,
            is_review: state.kind == RoleKind::Review,
            ..bare(task)
        }
    }
}

/// What is known of a task alone.
pub(super) fn bare(task: &Task) -> Request {
    Request::bare(task.entry.message.clone(), Session::Fresh { id: task.run().0 })
}
