//! Prepares a run: gathers all facts in the workspace before anything is recorded or started.

use std::sync::Arc;

use super::{Briefing, EngineRequest, PrepareError, PrepareFailure, PreparedRun};
use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::runs::NewRun;
use crate::app::snapshot::AgentState;
use crate::app::workspace_facts::{CodexSettings, ProbeError, WorkspaceFacts, WorkspaceProbe};
use crate::coder::exec::{Command, Exit, Inherited};
use crate::domain::environment;
use crate::domain::id::RunId;
use crate::domain::role::RoleKind;
use crate::domain::run::{EngineOutput, EngineRun};
use crate::domain::text::{cut, one_line};
use crate::domain::usage::Figures;
use crate::engine::budget::Budget;
use crate::engine::codex::Sandbox;
use crate::engine::{Engine, EngineWord, Request, Session, commands};

const LONGEST_REASON: usize = 300;

impl Fleet {
    /// Has no effect except for engines that create the conversation before the first run.
    pub(in crate::app) async fn engine_run_prepare(
        &self,
        state: &AgentState,
        request: EngineRequest<'_>,
    ) -> Result<PreparedRun, PrepareFailure> {
        let without_directory = |reason| PrepareFailure { cwd: None, reason };
        self.check_container(&state.agent.project)
            .map_err(|error| without_directory(PrepareError::Impossible(format!("not started: {error}"))))?;
        let engine = self.engine_resolved(state, &request).await;
        let facts = self.engine_run_facts(state, &request, engine.as_deref().ok()).await?;
        let with_directory = |reason| PrepareFailure { cwd: Some(facts.cwd.clone()), reason };
        let engine = engine.map_err(with_directory)?;
        let budget = self.budget_left(state, request.spender);
        let budget = budget
            .map_err(|error| with_directory(PrepareError::Impossible(format!("not started: {error}"))))?;
        self.engine_run_of(state, (&*engine, request), (&facts, budget)).await.map_err(with_directory)
    }

    /// Accepts the run under this id; repeated calls start the engine once.
    pub(in crate::app) async fn engine_run_launch(
        &self,
        id: RunId,
        prepared: PreparedRun,
    ) -> Result<(), Error> {
        self.run_start_as(id, prepared.new).await
    }

    async fn engine_resolved(
        &self,
        state: &AgentState,
        request: &EngineRequest<'_>,
    ) -> Result<Arc<dyn Engine>, PrepareError> {
        let word = match request.engine {
            Some(word) => word,
            None => self.engine_of(state).await?,
        };
        if request.briefing == Briefing::Agent && word.calls_tools() && !self.is_provisioned(state) {
            return Err(PrepareError::Later(NOT_PROVISIONED.to_owned()));
        }
        let sandbox = match word {
            EngineWord::Codex => self.sandbox_in(state).await?,
            EngineWord::Claude | EngineWord::CursorAgent | EngineWord::Custom => Sandbox::Workspace,
            EngineWord::Auto | EngineWord::Demo => Sandbox::Workspace,
        };
        let engine = self.options().engine.commands.in_workspace(word, self.own_program(), sandbox);
        engine.ok_or_else(|| {
            let reason = format!("set RUN_TEMPLATE_PATH to call the engine '{word}'");
            Error::EngineUnavailable { name: state.agent.name.to_string(), reason }.into()
        })
    }

    async fn engine_run_facts(
        &self,
        state: &AgentState,
        request: &EngineRequest<'_>,
        engine: Option<&dyn Engine>,
    ) -> Result<WorkspaceFacts, PrepareFailure> {
        let workspace_agent = state.workspace_agent();
        let workspace_agent =
            workspace_agent.map_err(|error| PrepareFailure { cwd: None, reason: error.into() })?;
        let is_briefed = request.briefing == Briefing::Agent;
        let probe = WorkspaceProbe {
            cwd: request.cwd,
            generation: state.callback().filter(|_| is_briefed).map(|_| state.agent.sighting.generation),
            notes: engine.filter(|_| is_briefed).and_then(Engine::notes_file),
            codex_settings: engine
                .map_or(CodexSettings::Unwanted, |engine| CodexSettings::wanted_by(engine.word())),
        };
        self.workspace_exec(workspace_agent, &state.agent.project).probe(probe).await.map_err(|error| {
            let reason = match &error {
                ProbeError::Silent(_) => PrepareError::Later(error.to_string()),
                ProbeError::Missing { .. }
                | ProbeError::Outside { .. }
                | ProbeError::Failed { .. }
                | ProbeError::Unnamable(_) => PrepareError::Directory(error.to_string()),
            };
            PrepareFailure { cwd: error.path().map(str::to_owned), reason }
        })
    }

    /// The usage of a continued conversation.
    async fn usage_before(&self, state: &AgentState, session: &Session) -> Result<Figures, Error> {
        match session {
            Session::Resume { id, .. } => self.usage_of_conversation(state.agent.id, id).await,
            Session::Unnamed | Session::Fresh { .. } | Session::Created { .. } => Ok(Figures::default()),
        }
    }

    async fn engine_run_of(
        &self,
        state: &AgentState,
        (engine, request): (&dyn Engine, EngineRequest<'_>),
        (facts, budget): (&WorkspaceFacts, Budget),
    ) -> Result<PreparedRun, PrepareError> {
        let mut call = self.engine_request(state, (engine, &request), facts, budget);
        if let Some(id) = self.conversation_opened(state, engine, &call).await? {
            call.session = Session::Created { id };
        }
        let invocation = engine.invocation(&call)?;
        let conversation = engine.conversation(&call.session);
        let record = EngineRun {
            engine: engine.word(),
            output: call.output,
            spender: request.spender,
            model: request.model,
            conversation: conversation.clone(),
            before: self.usage_before(state, &call.session).await?,
        };
        let command = Command {
            cwd: Some(facts.cwd.clone()),
            inherited: Inherited::Only(&environment::ALLOWED),
            timeout: request.timeout,
            ..Command::new(commands::argv(&invocation))
        };
        let command = Command { env: invocation.environment, stdin: invocation.stdin.into(), ..command };
        let new = NewRun { agent: state.agent.id, purpose: request.purpose, command, engine: Some(record) };
        let (cwd, head) = (facts.cwd.clone(), facts.head.clone());
        Ok(PreparedRun { new, engine: engine.word(), cwd, head, conversation })
    }

    fn engine_request(
        &self,
        state: &AgentState,
        (engine, request): (&dyn Engine, &EngineRequest<'_>),
        facts: &WorkspaceFacts,
        budget: Budget,
    ) -> Request {
        let agent_files = facts.agent_files.as_deref();
        Request {
            role: agent_files.and_then(|directory| self.role_prompt(state, directory)),
            fleet: agent_files.and_then(|directory| state.fleet_access(directory)),
            notes: facts.notes.clone(),
            settings: facts.codex_settings.clone(),
            model: request.model.clone(),
            directory: facts.cwd.clone().into(),
            repository: facts.repository.clone(),
            max_cost_usd: budget.max_cost_usd,
            is_review: request.briefing == Briefing::Agent && state.kind == RoleKind::Review,
            output: output_of(engine, request.output, budget),
            variables: request.variables.clone(),
            ..Request::bare(request.message.clone(), request.session.clone())
        }
    }

    /// The id of the conversation, for engines that create it before the first run.
    async fn conversation_opened(
        &self,
        state: &AgentState,
        engine: &dyn Engine,
        request: &Request,
    ) -> Result<Option<String>, PrepareError> {
        let Some(session_creation) = engine.session_creation(request)? else { return Ok(None) };
        let command = Command {
            cwd: Some(request.directory.display().to_string()),
            timeout: self.limits().opening_command,
            inherited: Inherited::Only(&environment::ALLOWED),
            env: session_creation.environment.clone(),
            ..Command::new(commands::argv(&session_creation))
        };
        let workspace_exec = self.workspace_exec(state.workspace_agent()?, &state.agent.project);
        let made = workspace_exec.exec(command, self.limits().opening_answer).await;
        let output =
            made.map_err(|error| PrepareError::Later(format!("the chat could not be created: {error}")))?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match output.exit {
            Exit::Code(0) if !id.is_empty() => Ok(Some(id)),
            Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => {
                let stderr = cut(&one_line(&String::from_utf8_lossy(&output.stderr)), LONGEST_REASON);
                Err(PrepareError::Impossible(format!("the chat could not be created: {stderr}")))
            }
        }
    }
}

/// Text has no usage figures. A run with a budget prints events instead, if its engine can, so that it is stopped when
/// its budget is used up.
fn output_of(engine: &dyn Engine, wanted: EngineOutput, budget: Budget) -> EngineOutput {
    let is_needed = budget != Budget::default() && !engine.reports_usage(wanted);
    if is_needed && engine.reports_usage(EngineOutput::Events) { EngineOutput::Events } else { wanted }
}

const NOT_PROVISIONED: &str = "the provisioning of this start has not completed yet; the run waits for it";
