//! Members of squads and their conversations: written step by step, ended once.

use chrono::{DateTime, Utc};
use sqlx::Row;

use super::Store;
use super::db::{DbConnection, DbRow};
use super::error::StoreError;
use super::row::{Columns, micros, micros_if_any};
use super::runs::state_of;
use crate::domain::engine_word::EngineWord;
use crate::domain::id::{AgentId, RunId, SquadId, TaskId};
use crate::domain::run::RunState;
use crate::domain::squad::{Chat, Member, MemberChat, MemberRun, MemberStatus, MemberSummary};

impl Store {
    /// Records a member's directory and process before the process begins.
    pub async fn member_begin(&self, member: &Member) -> Result<(), StoreError> {
        let update = sqlx::query(
            "UPDATE squad_members SET cwd = $1, chat_id = $2, run_id = $3, began_at = $4, engine = $5 \
             WHERE id = $6 AND ended_at IS NULL",
        );
        update
            .bind(&member.cwd)
            .bind(member.chat.as_ref().and_then(|chat| chat.id.clone()))
            .bind(member.run.as_ref().map(|run| run.id.0))
            .bind(micros_if_any(member.began_at))
            .bind(member.engine.map(EngineWord::word))
            .bind(member.id.0)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Ends a member and saves its conversation; a new conversation that it does not keep is detached. False if the
    /// member had ended already.
    pub async fn member_end(
        &self,
        id: TaskId,
        refusal: Option<&str>,
        chat: Option<&Chat>,
        at: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let update = sqlx::query(
            "UPDATE squad_members SET note = $1, ended_at = $2, \
             chat_id = CASE WHEN is_follow_up THEN chat_id ELSE $3 END WHERE id = $4 AND ended_at IS NULL",
        );
        let update = update.bind(refusal).bind(micros(at));
        let update = update.bind(chat.map(|chat| &chat.id)).bind(id.0);
        let is_new = update.execute(&mut *tx).await?.rows_affected() == 1;
        if let Some(chat) = chat {
            keep(&mut tx, chat).await?;
        }
        tx.commit().await?;
        Ok(is_new)
    }

    /// Records the intended directory of a member that did not begin.
    pub async fn member_note_cwd(&self, id: TaskId, cwd: Option<&str>) -> Result<(), StoreError> {
        let update = sqlx::query("UPDATE squad_members SET cwd = $1 WHERE id = $2 AND ended_at IS NULL");
        update.bind(cwd).bind(id.0).execute(&self.write).await?;
        Ok(())
    }

    /// Processes of members in this agent's workspace that are to be ended.
    pub async fn member_runs_unwanted(&self, agent: AgentId) -> Result<Vec<RunId>, StoreError> {
        let rows = sqlx::query(
            "SELECT m.run_id FROM squad_members m JOIN task_deliveries d ON d.task_id = m.id \
             WHERE m.agent_id = $1 AND m.ended_at IS NULL AND m.run_id IS NOT NULL AND d.cancel_at IS NOT NULL",
        );
        let rows = rows.bind(agent.0).fetch_all(&self.read).await?;
        Ok(rows.iter().map(|row| row.id("run_id", RunId)).collect::<Result<_, _>>()?)
    }

    pub async fn chat_by_id(&self, id: &str) -> Result<Option<Chat>, StoreError> {
        let row = sqlx::query("SELECT id, principal, agent_id, engine, used_at FROM chats WHERE id = $1");
        let row = row.bind(id).fetch_optional(&self.read).await?;
        let chat = |row: DbRow| {
            Ok::<_, sqlx::Error>(Chat {
                id: row.try_get("id")?,
                principal: row.try_get("principal")?,
                agent: row.id("agent_id", AgentId)?,
                engine: row.word("engine", EngineWord::parse)?,
                used_at: row.time("used_at")?,
            })
        };
        Ok(row.map(chat).transpose()?)
    }
}

pub(super) async fn insert(
    connection: &mut DbConnection,
    squad: SquadId,
    position: usize,
    member: &Member,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO squad_members (id, squad_id, position, role, task, prompt, wanted_cwd, cwd, agent_id, \
         is_follow_up, chat_id, engine, run_id, note, began_at, ended_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
    )
    .bind(member.id.0)
    .bind(squad.0)
    .bind(i64::try_from(position).unwrap_or(i64::MAX))
    .bind(&member.role)
    .bind(&member.task)
    .bind(&member.prompt)
    .bind(&member.wanted_cwd)
    .bind(&member.cwd)
    .bind(member.agent.map(|agent| agent.0))
    .bind(member.chat.as_ref().map(|chat| chat.is_follow_up))
    .bind(member.chat.as_ref().and_then(|chat| chat.id.clone()))
    .bind(member.engine.map(EngineWord::word))
    .bind(member.run.as_ref().map(|run| run.id.0))
    .bind(&member.refusal)
    .bind(micros_if_any(member.began_at))
    .bind(micros_if_any(member.ended_at))
    .execute(connection)
    .await?;
    Ok(())
}

/// The members of a squad, in their order.
pub(super) async fn of(connection: &mut DbConnection, squad: SquadId) -> Result<Vec<Member>, StoreError> {
    let rows = sqlx::query(
        "SELECT m.id, m.role, m.task, m.prompt, m.wanted_cwd, m.cwd, m.agent_id, m.is_follow_up, m.chat_id, m.engine, \
         m.note, m.began_at, m.ended_at, m.run_id, r.state, r.code, r.reason, r.ended_at AS run_ended_at \
         FROM squad_members m LEFT JOIN runs r ON r.id = m.run_id WHERE m.squad_id = $1 ORDER BY m.position",
    );
    let rows = rows.bind(squad.0).fetch_all(connection).await?;
    Ok(rows.iter().map(member).collect::<Result<_, _>>()?)
}

/// Whether an unfinished member uses this conversation.
pub(super) async fn chat_is_in_use(connection: &mut DbConnection, id: &str) -> Result<bool, StoreError> {
    let row = sqlx::query("SELECT 1 FROM squad_members WHERE chat_id = $1 AND ended_at IS NULL LIMIT 1");
    Ok(row.bind(id).fetch_optional(connection).await?.is_some())
}

async fn keep(connection: &mut DbConnection, chat: &Chat) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO chats (id, principal, agent_id, engine, used_at) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (id) DO UPDATE SET used_at = excluded.used_at",
    )
    .bind(&chat.id)
    .bind(&chat.principal)
    .bind(chat.agent.0)
    .bind(chat.engine.word())
    .bind(micros(chat.used_at))
    .execute(connection)
    .await?;
    Ok(())
}

pub(super) fn summary(row: &DbRow) -> Result<MemberSummary, sqlx::Error> {
    Ok(MemberSummary {
        id: row.id("id", TaskId)?,
        role: row.try_get("role")?,
        status: MemberStatus::of(row.time_if_any("ended_at")?, run_of(row)?.map(|run| run.state).as_ref()),
    })
}

/// The process of a member with its state. One that is recorded and not yet accepted is about to be.
fn run_of(row: &DbRow) -> Result<Option<MemberRun>, sqlx::Error> {
    let Some(id) = row.id_if_any("run_id", RunId)? else { return Ok(None) };
    let is_accepted = row.try_get::<Option<&str>, _>("state")?.is_some();
    let state = if is_accepted { state_of(row)? } else { RunState::Accepted };
    Ok(Some(MemberRun { id, state }))
}

fn member(row: &DbRow) -> Result<Member, sqlx::Error> {
    let chat_id: Option<String> = row.try_get("chat_id")?;
    let is_follow_up: Option<bool> = row.try_get("is_follow_up")?;
    Ok(Member {
        id: row.id("id", TaskId)?,
        role: row.try_get("role")?,
        task: row.try_get("task")?,
        prompt: row.try_get("prompt")?,
        wanted_cwd: row.try_get("wanted_cwd")?,
        cwd: row.try_get("cwd")?,
        agent: row.id_if_any("agent_id", AgentId)?,
        chat: is_follow_up.map(|is_follow_up| MemberChat { id: chat_id, is_follow_up }),
        engine: row.word_if_any("engine", EngineWord::parse)?,
        run: run_of(row)?,
        refusal: row.try_get("note")?,
        began_at: row.time_if_any("began_at")?,
        ended_at: row.time_if_any("ended_at")?,
    })
}
