//! Starts a member: its workspace, directory, engine and conversation, then its process.

use chrono::Utc;
use uuid::Uuid;

use crate::app::Fleet;
use crate::app::engine_runs::{Briefing, EngineRequest, PrepareError, PrepareFailure, PreparedRun};
use crate::app::error::Error;
use crate::app::hooks::point;
use crate::app::snapshot::AgentState;
use crate::domain::id::RunId;
use crate::domain::run::{EngineOutput, RunState};
use crate::domain::squad::{Member, MemberEnd, MemberRun, Squad};
use crate::domain::task::TaskState;
use crate::domain::usage::Spender;
use crate::engine::{ConversationUsage, EngineWord, Session};
use crate::store::StoreError;

/// Why a member did not start.
pub(super) enum MemberStartError {
    /// The member ended without a start.
    Ended(MemberEnd),
    /// The workspace did not respond; retried for a while, since a restart passes.
    Unresponsive(String),
    /// An error of the fleet; retried.
    Failed(Error),
}

impl MemberStartError {
    pub(super) fn ended(note: impl Into<String>) -> Self {
        Self::Ended(MemberEnd::error(note))
    }

    /// Classifies an error of a request to the workspace.
    fn of_request_error(error: Error) -> Self {
        match error {
            Error::Store(_) => Self::Failed(error),
            Error::CoderUnavailable(_) | Error::CoderTokenRefused(_) | Error::NotReady { .. } => {
                Self::Unresponsive(error.to_string())
            }
            error => Self::ended(format!("{}: {error}", error.code().as_str())),
        }
    }
}

impl From<PrepareError> for MemberStartError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Later(reason) => Self::Unresponsive(reason),
            PrepareError::Directory(reason) | PrepareError::Impossible(reason) => Self::ended(reason),
            PrepareError::Fleet(error) => Self::of_request_error(error),
        }
    }
}

impl From<Error> for MemberStartError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for MemberStartError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Fleet {
    /// Records everything before the process starts. A recorded run that never started is repeated under a new id, so
    /// that no run starts twice.
    pub(super) async fn member_begin(
        &self,
        squad: &Squad,
        member: &mut Member,
    ) -> Result<(), MemberStartError> {
        if self.member_is_canceled(member.id).await? {
            return Err(MemberStartError::ended("it was canceled before it started"));
        }
        let agent = member.agent.ok_or_else(|| MemberStartError::ended("its workspace was deleted"))?;
        let state = self.member_workspace_ready(agent).await?;
        let prepared = match self.member_prepare(squad, member, &state).await {
            Ok(prepared) => prepared,
            Err(failure) => {
                // Record the directory also for a failed start.
                self.store().member_note_cwd(member.id, failure.cwd.as_deref()).await?;
                return Err(failure.reason.into());
            }
        };
        member.cwd = Some(prepared.cwd.clone());
        member.engine = Some(prepared.engine);
        if let Some(chat) = &mut member.chat {
            chat.id.clone_from(&prepared.conversation);
        }
        let run = RunId::fresh();
        member.run = Some(MemberRun { id: run, state: RunState::Accepted });
        member.began_at = Some(Utc::now());
        self.store().member_begin(member).await?;
        point("member.recorded");
        self.member_launch(member, (run, prepared), &state).await
    }

    async fn member_prepare(
        &self,
        squad: &Squad,
        member: &Member,
        state: &AgentState,
    ) -> Result<PreparedRun, PrepareFailure> {
        let without_directory = |error: Error| PrepareFailure { cwd: None, reason: error.into() };
        let variables = [
            ("task", member.task.as_str()),
            ("STATE_MODE", squad.state_mode.word()),
            ("roleId", member.role.as_str()),
        ];
        let wanted = EngineRequest {
            purpose: format!("squad member ({})", member.role),
            message: member.prompt.clone(),
            session: session_of(member),
            engine: self.chat_engine(member).await.map_err(without_directory)?,
            model: self.options().squads.model.clone(),
            cwd: member.wanted_cwd.as_deref(),
            briefing: Briefing::Nothing,
            output: EngineOutput::Text,
            spender: Spender::Member,
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            timeout: squad.timeout,
        };
        self.engine_run_prepare(state, wanted).await
    }

    /// A conversation stays with the engine that stores it.
    async fn chat_engine(&self, member: &Member) -> Result<Option<EngineWord>, Error> {
        let follow_up = member.chat.as_ref().filter(|chat| chat.is_follow_up);
        let Some(id) = follow_up.and_then(|chat| chat.id.as_deref()) else { return Ok(None) };
        Ok(self.store().chat_by_id(id).await?.map(|chat| chat.engine))
    }

    async fn member_launch(
        &self,
        member: &Member,
        (run, prepared): (RunId, PreparedRun),
        state: &AgentState,
    ) -> Result<(), MemberStartError> {
        self.engine_run_launch(run, prepared).await.map_err(|error| match error {
            Error::NotReady { .. } => MemberStartError::Unresponsive(error.to_string()),
            Error::AgentNotFound(_) | Error::Invalid { .. } => MemberStartError::ended(error.to_string()),
            error => MemberStartError::Failed(error),
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

/// A new conversation gets an id from the fleet, unless its engine assigns one.
fn session_of(member: &Member) -> Session {
    match &member.chat {
        None => Session::Unnamed,
        Some(chat) => match chat.id.clone().filter(|_| chat.is_follow_up) {
            Some(id) => Session::Resume { id, spent: ConversationUsage::default() },
            None => Session::Fresh { id: Uuid::new_v4() },
        },
    }
}
