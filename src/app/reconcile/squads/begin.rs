//! The beginning of a member: its workspace, its directory, its engine, its conversation, then its process.

use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use uuid::Uuid;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::ground::{CodexSettings, Ground, GroundError, Plot};
use crate::app::hooks::point;
use crate::app::runs::NewRun;
use crate::app::snapshot::AgentState;
use crate::coder::exec::{Command, Exit, Inherited};
use crate::domain::environment;
use crate::domain::id::RunId;
use crate::domain::squad::{Member, MemberEnd, MemberStatus, Squad};
use crate::domain::task::TaskState;
use crate::domain::text::{cut, one_line};
use crate::engine::EngineWord;
use crate::engine::member::{MemberCommand, MemberEngine, SANDBOX, place};
use crate::engine::template::Values;
use crate::store::StoreError;

/// A CLI that makes a conversation asks its service.
const OPENING_LIMIT: Duration = Duration::from_secs(60);
const LONGEST_REASON: usize = 300;

/// Why a member does not begin.
pub(super) enum Unbegun {
    /// It has ended without.
    Ended(MemberEnd),
    /// Its workspace did not answer, and why: a restart passes, so it is asked again for a while.
    Silent(String),
    /// For a reason of ours; it is tried again.
    Failed(Error),
}

impl Unbegun {
    pub(super) fn ended(note: impl Into<String>) -> Self {
        Self::Ended(MemberEnd::error(note))
    }

    /// What it means that the workspace could not be asked.
    fn unasked(error: Error) -> Self {
        match error {
            Error::Store(_) => Self::Failed(error),
            Error::CoderUnavailable(_) | Error::CoderTokenRefused(_) | Error::NotReady { .. } => {
                Self::Silent(error.to_string())
            }
            error => Self::ended(format!("{}: {error}", error.code().as_str())),
        }
    }
}

impl From<Error> for Unbegun {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Unbegun {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Fleet {
    /// Everything is recorded before the process begins. One that was recorded and never begun is begun under another
    /// id, so that none runs twice.
    pub(super) async fn member_begin(&self, squad: &Squad, member: &mut Member) -> Result<(), Unbegun> {
        if self.member_is_unwanted(member.id).await? {
            return Err(Unbegun::ended("it was canceled before it started"));
        }
        let agent = member.agent.ok_or_else(|| Unbegun::ended("its workspace was deleted"))?;
        let state = self.member_place(agent).await?;
        let prepared = self.member_prepare(squad, member, &state).await;
        if prepared.is_err() {
            // Where it would have worked is told all the same.
            self.store().member_note_cwd(member.id, member.cwd.as_deref()).await?;
        }
        let command = prepared?;
        member.run = Some(RunId::fresh());
        member.status = MemberStatus::Running;
        member.began_at = Some(Utc::now());
        self.store().member_begin(member).await?;
        point("member.recorded");
        self.member_launch(squad, member, command, &state).await
    }

    /// Finds out where and how, without any effect but a conversation that some engines want made first.
    async fn member_prepare(
        &self,
        squad: &Squad,
        member: &mut Member,
        state: &AgentState,
    ) -> Result<MemberCommand, Unbegun> {
        let engine = self.member_engine(member, state).await;
        let ground =
            self.member_ground(member, state, engine.as_ref().ok().map(|engine| engine.word)).await?;
        let engine = engine?;
        member.engine = Some(engine.word.word().to_owned());
        let mut values = self.member_values(squad, member, &ground);
        if engine.is_shut_in() {
            let sandbox = self.sandbox_in(state).await.map_err(Unbegun::unasked)?;
            values.insert(SANDBOX.to_owned(), sandbox.word().to_owned());
        }
        self.member_open_chat(member, engine, state, &mut values).await?;
        engine.command(&values).map_err(|error| Unbegun::ended(error.to_string()))
    }

    /// A conversation stays with the engine that keeps it.
    async fn member_engine(&self, member: &Member, state: &AgentState) -> Result<&MemberEngine, Unbegun> {
        let follow_up = member.chat.as_ref().filter(|chat| chat.is_follow_up);
        let known = match follow_up.and_then(|chat| chat.id.as_deref()) {
            Some(id) => self.store().chat_by_id(id).await?.and_then(|chat| EngineWord::parse(&chat.engine)),
            None => None,
        };
        let word = match known {
            Some(word) => word,
            None => self.engine_of(state).await.map_err(Unbegun::unasked)?,
        };
        self.options().squads.engines.get(&word).ok_or_else(|| {
            Unbegun::ended(format!("ENGINE_UNAVAILABLE: set RUN_TEMPLATE_PATH to use the engine '{word}'"))
        })
    }

    async fn member_ground(
        &self,
        member: &mut Member,
        state: &AgentState,
        engine: Option<EngineWord>,
    ) -> Result<Ground, Unbegun> {
        let workspace_agent = state.workspace_agent().map_err(Unbegun::unasked)?;
        let codex_settings = engine.map_or(CodexSettings::Unwanted, CodexSettings::wanted_by);
        let plot = Plot { cwd: member.wanted_cwd.as_deref(), generation: None, notes: None, codex_settings };
        let looked = self.inside(workspace_agent, &state.agent.project).ground(plot).await;
        let place = match &looked {
            Ok(ground) => Some(ground.cwd.as_str()),
            Err(error) => error.place(),
        };
        member.cwd = place.map(str::to_owned);
        looked.map_err(|error| match error {
            GroundError::Silent(_) => Unbegun::Silent(error.to_string()),
            error => Unbegun::ended(error.to_string()),
        })
    }

    fn member_values(&self, squad: &Squad, member: &Member, ground: &Ground) -> Values {
        let follow_up = member.chat.as_ref().filter(|chat| chat.is_follow_up);
        let mut values = place(&ground.cwd, ground.repository.as_ref(), ground.codex_settings.as_deref());
        let pairs = [
            ("prompt", member.prompt.clone()),
            ("task", member.task.clone()),
            ("chatId", follow_up.and_then(|chat| chat.id.clone()).unwrap_or_default()),
            ("STATE_MODE", squad.state_mode.word().to_owned()),
            ("roleId", member.role.clone()),
            ("FLEET_MCP", self.own_program().display().to_string()),
        ];
        values.extend(pairs.map(|(name, value)| (name.to_owned(), value)));
        values
    }

    /// A new conversation gets its name: from the engine, or from us where the engine takes one.
    async fn member_open_chat(
        &self,
        member: &mut Member,
        engine: &MemberEngine,
        state: &AgentState,
        values: &mut Values,
    ) -> Result<(), Unbegun> {
        let Some(chat) = member.chat.as_mut().filter(|chat| !chat.is_follow_up) else { return Ok(()) };
        if let Some(opening) = engine.opening(values) {
            let opening = opening.map_err(|error| Unbegun::ended(error.to_string()))?;
            let id = self.chat_opened(state, opening, member.cwd.clone()).await?;
            values.insert("chatId".to_owned(), id.clone());
            chat.id = Some(id);
        } else if !engine.names_chats_itself() {
            let id = Uuid::new_v4().to_string();
            values.insert("newChatId".to_owned(), id.clone());
            chat.id = Some(id);
        }
        Ok(())
    }

    async fn chat_opened(
        &self,
        state: &AgentState,
        opening: MemberCommand,
        cwd: Option<String>,
    ) -> Result<String, Unbegun> {
        let command = Command {
            cwd,
            timeout: OPENING_LIMIT,
            inherited: Inherited::Only(&environment::ALLOWED),
            env: opening.environment,
            ..Command::new(opening.argv)
        };
        let failed = |said: &str| {
            Unbegun::ended(format!("the chat could not be created: {}", cut(&one_line(said), LONGEST_REASON)))
        };
        let workspace_agent = state.workspace_agent().map_err(Unbegun::unasked)?;
        let made = self.inside(workspace_agent, &state.agent.project).exec(command).await;
        let output =
            made.map_err(|error| Unbegun::Silent(format!("the chat could not be created: {error}")))?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match output.exit {
            Exit::Code(0) if !id.is_empty() => Ok(id),
            Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => {
                Err(failed(&String::from_utf8_lossy(&output.stderr)))
            }
        }
    }

    async fn member_launch(
        &self,
        squad: &Squad,
        member: &Member,
        command: MemberCommand,
        state: &AgentState,
    ) -> Result<(), Unbegun> {
        let id = member.run.unwrap_or_else(RunId::fresh);
        let started = self.start_run_as(
            id,
            NewRun {
                agent: state.agent.id,
                purpose: format!("squad member ({})", member.role),
                argv: command.argv,
                cwd: member.cwd.clone(),
                inherited: Inherited::Only(&environment::ALLOWED),
                env: command.environment,
                stdin: Bytes::from(command.stdin),
                timeout: squad.timeout,
            },
        );
        started.await.map_err(|error| match error {
            Error::NotReady { .. } => Unbegun::Silent(error.to_string()),
            Error::AgentNotFound(_) | Error::Invalid { .. } => Unbegun::ended(error.to_string()),
            error => Unbegun::Failed(error),
        })?;
        point("member.launched");
        self.member_task_begin(member, state.agent.sighting.generation).await?;
        self.nudge_squads();
        Ok(())
    }

    async fn member_task_begin(&self, member: &Member, generation: i64) -> Result<(), Error> {
        let Some(mut task) = self.store().task_by_id(member.id).await? else { return Ok(()) };
        task.begin_run(generation, member.began_at);
        let reason = "its process was started in the workspace";
        self.store().task_save(&task, &[(TaskState::Working, reason)], Utc::now()).await?;
        self.tasks_publish(task.entry.agent_id).await
    }
}
