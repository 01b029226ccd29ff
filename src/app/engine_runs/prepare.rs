//! All that a run needs, found out in the workspace before anything is recorded or begun.

use std::sync::Arc;
use std::time::Duration;

use super::{Briefing, EngineRequest, PrepareError, PreparedRun, Unprepared};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::runs::NewRun;
use crate::app::snapshot::AgentState;
use crate::app::workspace_facts::{CodexSettings, ProbeError, WorkspaceFacts, WorkspaceProbe};
use crate::coder::exec::{Command, Exit, Inherited};
use crate::domain::environment;
use crate::domain::id::RunId;
use crate::domain::role::RoleKind;
use crate::domain::run::EngineRun;
use crate::domain::text::{cut, one_line};
use crate::engine::budget::Budget;
use crate::engine::codex::Sandbox;
use crate::engine::{Engine, EngineWord, Request, Session, commands};

/// A CLI that makes a conversation asks its service.
const OPENING_LIMIT: Duration = Duration::from_secs(60);
const LONGEST_REASON: usize = 300;

impl Fleet {
    /// Without any effect but a conversation that some engines want made first.
    pub(in crate::app) async fn engine_run_prepare(
        &self,
        state: &AgentState,
        wanted: EngineRequest<'_>,
    ) -> Result<PreparedRun, Unprepared> {
        let nowhere = |reason| Unprepared { cwd: None, reason };
        self.check_container(&state.agent.project)
            .map_err(|error| nowhere(PrepareError::Never(format!("not started: {error}"))))?;
        let engine = self.engine_resolved(state, &wanted).await;
        let facts = self.engine_run_facts(state, &wanted, engine.as_deref().ok()).await?;
        let here = |reason| Unprepared { cwd: Some(facts.cwd.clone()), reason };
        let engine = engine.map_err(here)?;
        let budget = self.budget_left(state, wanted.spender);
        let budget = budget.map_err(|error| here(PrepareError::Never(format!("not started: {error}"))))?;
        self.engine_run_of(state, (&*engine, wanted), (&facts, budget)).await.map_err(here)
    }

    /// Accepts the run under this id; however often that is asked, the engine begins once.
    pub(in crate::app) async fn engine_run_launch(
        &self,
        id: RunId,
        prepared: PreparedRun,
    ) -> Result<(), Error> {
        self.start_run_as(id, prepared.new).await.map(drop)
    }

    async fn engine_resolved(
        &self,
        state: &AgentState,
        wanted: &EngineRequest<'_>,
    ) -> Result<Arc<dyn Engine>, PrepareError> {
        let word = match wanted.engine {
            Some(word) => word,
            None => self.engine_of(state).await?,
        };
        if wanted.briefing == Briefing::Agent && word.calls_tools() && !self.is_provisioned(state) {
            return Err(PrepareError::Later(UNBRIEFED.to_owned()));
        }
        let sandbox = match word {
            EngineWord::Codex => self.sandbox_in(state).await?,
            EngineWord::Claude | EngineWord::CursorAgent | EngineWord::Custom => Sandbox::Workspace,
            EngineWord::Auto | EngineWord::Demo => Sandbox::Workspace,
        };
        let engine = self.options().engine.commands.by_word(word, self.own_program(), sandbox);
        engine.ok_or_else(|| {
            let reason = format!("set RUN_TEMPLATE_PATH to call the engine '{word}'");
            Error::EngineUnavailable { name: state.agent.name.to_string(), reason }.into()
        })
    }

    async fn engine_run_facts(
        &self,
        state: &AgentState,
        wanted: &EngineRequest<'_>,
        engine: Option<&dyn Engine>,
    ) -> Result<WorkspaceFacts, Unprepared> {
        let workspace_agent = state.workspace_agent();
        let workspace_agent =
            workspace_agent.map_err(|error| Unprepared { cwd: None, reason: error.into() })?;
        let is_briefed = wanted.briefing == Briefing::Agent;
        let probe = WorkspaceProbe {
            cwd: wanted.cwd,
            generation: state.callback().filter(|_| is_briefed).map(|_| state.agent.sighting.generation),
            notes: engine.filter(|_| is_briefed).and_then(Engine::notes_file),
            codex_settings: engine
                .map_or(CodexSettings::Unwanted, |engine| CodexSettings::wanted_by(engine.word())),
        };
        self.inside(workspace_agent, &state.agent.project).probe(probe).await.map_err(|error| {
            let reason = match &error {
                ProbeError::Silent(_) => PrepareError::Later(error.to_string()),
                ProbeError::Missing { .. }
                | ProbeError::Outside { .. }
                | ProbeError::Failed { .. }
                | ProbeError::Unnamable(_) => PrepareError::Directory(error.to_string()),
            };
            Unprepared { cwd: error.place().map(str::to_owned), reason }
        })
    }

    async fn engine_run_of(
        &self,
        state: &AgentState,
        (engine, wanted): (&dyn Engine, EngineRequest<'_>),
        (facts, budget): (&WorkspaceFacts, Budget),
    ) -> Result<PreparedRun, PrepareError> {
        let mut request = self.engine_request(state, &wanted, facts, budget);
        if let Some(id) = self.conversation_opened(state, engine, &request).await? {
            request.session = Session::Created { id };
        }
        let invocation = engine.invocation(&request)?;
        let conversation = engine.conversation(&request.session);
        let record = EngineRun {
            engine: engine.word().word().to_owned(),
            output: wanted.output,
            spender: wanted.spender,
            model: wanted.model,
            conversation: conversation.clone(),
        };
        let new = NewRun {
            agent: state.agent.id,
            purpose: wanted.purpose,
            argv: commands::argv(&invocation),
            cwd: Some(facts.cwd.clone()),
            inherited: Inherited::Only(&environment::ALLOWED),
            env: invocation.environment,
            stdin: invocation.stdin.into(),
            timeout: wanted.timeout,
            engine: Some(record),
        };
        let (cwd, head) = (facts.cwd.clone(), facts.head.clone());
        Ok(PreparedRun { new, engine: engine.word(), cwd, head, conversation })
    }

    fn engine_request(
        &self,
        state: &AgentState,
        wanted: &EngineRequest<'_>,
        facts: &WorkspaceFacts,
        budget: Budget,
    ) -> Request {
        let given = facts.given.as_deref();
        Request {
            role: given.and_then(|directory| self.role_prompt(state, directory)),
            fleet: given.and_then(|directory| state.fleet_access(directory)),
            notes: facts.notes.clone(),
            settings: facts.codex_settings.clone(),
            model: wanted.model.clone(),
            directory: facts.cwd.clone().into(),
            repository: facts.repository.clone(),
            max_cost_usd: budget.max_cost_usd,
            is_review: wanted.briefing == Briefing::Agent && state.kind == RoleKind::Review,
            output: wanted.output,
            variables: wanted.variables.clone(),
            ..Request::bare(wanted.message.clone(), wanted.session.clone())
        }
    }

    /// The id of a conversation that the engine wants made before its first run.
    async fn conversation_opened(
        &self,
        state: &AgentState,
        engine: &dyn Engine,
        request: &Request,
    ) -> Result<Option<String>, PrepareError> {
        let Some(session_creation) = engine.session_creation(request)? else { return Ok(None) };
        let command = Command {
            cwd: Some(request.directory.display().to_string()),
            timeout: OPENING_LIMIT,
            inherited: Inherited::Only(&environment::ALLOWED),
            env: session_creation.environment.clone(),
            ..Command::new(commands::argv(&session_creation))
        };
        let made = self.inside(state.workspace_agent()?, &state.agent.project).exec(command).await;
        let output =
            made.map_err(|error| PrepareError::Later(format!("the chat could not be created: {error}")))?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match output.exit {
            Exit::Code(0) if !id.is_empty() => Ok(Some(id)),
            Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => {
                let said = cut(&one_line(&String::from_utf8_lossy(&output.stderr)), LONGEST_REASON);
                Err(PrepareError::Never(format!("the chat could not be created: {said}")))
            }
        }
    }
}

const UNBRIEFED: &str = "what this start of the agent is given is still on its way";
