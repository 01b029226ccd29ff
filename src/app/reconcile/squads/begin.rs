//! The beginning of a member: its workspace, its directory, its engine, its conversation, then its process.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use uuid::Uuid;

use crate::app::Fleet;
use crate::app::error::Error;
use crate::app::ground::{Ground, Plot};
use crate::app::hooks::point;
use crate::app::inside::Inside;
use crate::app::runs::NewRun;
use crate::app::snapshot::AgentState;
use crate::coder::exec::{Command, Exit, Inherited};
use crate::domain::environment;
use crate::domain::id::RunId;
use crate::domain::squad::{Member, MemberEnd, MemberStatus, Squad};
use crate::domain::task::TaskState;
use crate::domain::text::{cut, one_line};
use crate::engine::EngineWord;
use crate::engine::member::{MemberCommand, MemberEngine, SANDBOX};
use crate::engine::template::Values;

/// A CLI that makes a conversation asks its service.
const OPENING_LIMIT: Duration = Duration::from_secs(60);
const LONGEST_REASON: usize = 300;

/// Either the member has begun, or it has ended without.
type Begun = Result<(), MemberEnd>;

impl Fleet {
    /// Everything is recorded before the process begins. One that was recorded and never begun is begun under another
    /// id, so that none runs twice.
    pub(super) async fn member_begin(&self, squad: &Squad, member: &mut Member) -> Result<Begun, Error> {
        if self.member_is_unwanted(member.id).await? {
            return Ok(Err(MemberEnd::error("it was canceled before it began")));
        }
        let Some(agent) = member.agent else {
            return Ok(Err(MemberEnd::error("its workspace was deleted")));
        };
        let state = match self.member_place(agent).await? {
            Ok(state) => state,
            Err(end) => return Ok(Err(end)),
        };
        let command = match self.member_prepare(squad, member, &state).await? {
            Ok(command) => command,
            Err(end) => return Ok(Err(end)),
        };
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
    ) -> Result<Result<MemberCommand, MemberEnd>, Error> {
        let engine = match self.member_engine(member, state).await? {
            Ok(engine) => engine,
            Err(end) => return Ok(Err(end)),
        };
        let Some(workspace_agent) = state.live.workspace_agent else {
            return Ok(Err(MemberEnd::error("its workspace has no agent")));
        };
        let inside = self.inside(workspace_agent, &state.agent.project);
        let plot = Plot { cwd: member.wanted_cwd.as_deref(), generation: None, notes: None };
        let ground = match inside.ground(plot).await {
            Ok(ground) => ground,
            Err(error) => return Ok(Err(MemberEnd::error(error.to_string()))),
        };
        member.engine = Some(engine.word.word().to_owned());
        member.cwd = Some(ground.cwd.clone());
        let mut values = self.member_values(squad, member, &ground);
        if engine.is_shut_in() {
            match self.sandbox_in(state).await {
                Ok(sandbox) => values.insert(SANDBOX.to_owned(), sandbox.word().to_owned()),
                Err(error) => return Ok(Err(MemberEnd::error(error.to_string()))),
            };
        }
        if let Err(end) = open_chat(member, engine, &inside, &mut values).await {
            return Ok(Err(end));
        }
        Ok(engine.command(&values).map_err(|error| MemberEnd::error(error.to_string())))
    }

    /// A conversation stays with the engine that keeps it.
    async fn member_engine(
        &self,
        member: &Member,
        state: &AgentState,
    ) -> Result<Result<&MemberEngine, MemberEnd>, Error> {
        let follow_up = member.chat.as_ref().filter(|chat| chat.is_follow_up);
        let known = match follow_up.and_then(|chat| chat.id.as_deref()) {
            Some(id) => self.store().chat_by_id(id).await?.and_then(|chat| EngineWord::parse(&chat.engine)),
            None => None,
        };
        let word = match known {
            Some(word) => word,
            None => match self.engine_of(state).await {
                Ok(word) => word,
                Err(error @ Error::Store(_)) => return Err(error),
                Err(error) => {
                    return Ok(Err(MemberEnd::error(format!("{}: {error}", error.code().as_str()))));
                }
            },
        };
        let engine = self.options().squads.engines.get(&word);
        Ok(engine.ok_or_else(|| {
            MemberEnd::error(format!("ENGINE_UNAVAILABLE: set RUN_TEMPLATE_PATH to call the engine '{word}'"))
        }))
    }

    fn member_values(&self, squad: &Squad, member: &Member, ground: &Ground) -> Values {
        let follow_up = member.chat.as_ref().filter(|chat| chat.is_follow_up);
        let path = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
        let repository = ground.repository.as_ref();
        let pairs = [
            ("prompt", member.prompt.clone()),
            ("task", member.task.clone()),
            ("cwd", ground.cwd.clone()),
            ("chatId", follow_up.and_then(|chat| chat.id.clone()).unwrap_or_default()),
            ("STATE_MODE", squad.state_mode.word().to_owned()),
            ("roleId", member.role.clone()),
            ("gitDir", path(repository.map(|known| &known.git_directory))),
            ("gitCommonDir", path(repository.map(|known| &known.common_directory))),
            ("FLEET_MCP", self.own_program().display().to_string()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    async fn member_launch(
        &self,
        squad: &Squad,
        member: &Member,
        command: MemberCommand,
        state: &AgentState,
    ) -> Result<Begun, Error> {
        let id = member.run.unwrap_or_else(RunId::fresh);
        let started = self.start_run_as(
            id,
            NewRun {
                agent: state.agent.id,
                purpose: format!("squad member ({})", member.role),
                argv: command.argv,
                cwd: member.cwd.clone(),
                inherited: Inherited::Only(&environment::ALLOWED),
                env: Vec::new(),
                stdin: Bytes::from(command.stdin),
                timeout: squad.timeout,
            },
        );
        match started.await {
            Ok(_) => {}
            Err(error @ (Error::NotReady { .. } | Error::AgentNotFound(_) | Error::Invalid { .. })) => {
                return Ok(Err(MemberEnd::error(error.to_string())));
            }
            Err(error) => return Err(error),
        }
        point("member.launched");
        self.member_task_begin(member, state.agent.sighting.generation).await?;
        self.nudge_squads();
        Ok(Ok(()))
    }

    async fn member_task_begin(&self, member: &Member, generation: i64) -> Result<(), Error> {
        let Some(mut task) = self.store().task_by_id(member.id).await? else { return Ok(()) };
        task.entry.state = TaskState::Working.word().to_owned();
        task.entry.generation = generation;
        task.work.working_since = member.began_at;
        let reason = "its process was started in the workspace";
        self.store().task_save(&task, &[(TaskState::Working, reason)], Utc::now()).await?;
        self.tasks_publish(task.entry.agent_id).await
    }
}

/// A new conversation gets its name: from the engine, or from us where the engine takes one.
async fn open_chat(
    member: &mut Member,
    engine: &MemberEngine,
    inside: &Inside<'_>,
    values: &mut Values,
) -> Result<(), MemberEnd> {
    let Some(chat) = member.chat.as_mut().filter(|chat| !chat.is_follow_up) else { return Ok(()) };
    if let Some(opening) = engine.opening(values) {
        let opening = opening.map_err(|error| MemberEnd::error(error.to_string()))?;
        let cwd = member.cwd.clone();
        let id = chat_opened(inside, opening, cwd).await?;
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
    inside: &Inside<'_>,
    opening: MemberCommand,
    cwd: Option<String>,
) -> Result<String, MemberEnd> {
    let command = Command {
        cwd,
        timeout: OPENING_LIMIT,
        inherited: Inherited::Only(&environment::ALLOWED),
        ..Command::new(opening.argv)
    };
    let failed = |said: &str| {
        MemberEnd::error(format!("no chat could be made: {}", cut(&one_line(said), LONGEST_REASON)))
    };
    let output = inside.exec(command).await.map_err(|error| failed(&error.to_string()))?;
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.exit {
        Exit::Code(0) if !id.is_empty() => Ok(id),
        Exit::Code(_) | Exit::Signal(_) | Exit::TimedOut => {
            Err(failed(&String::from_utf8_lossy(&output.stderr)))
        }
    }
}
