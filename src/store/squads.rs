//! Squads: accepted atomically with the tasks of their members, found by requester, ended with their last member.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::Row;

use super::db::{DbConnection, DbRow};
use super::error::StoreError;
use super::row::{Columns, count, micros};
use super::{RequestKey, Store, request_keys, squad_members, tasks};
use crate::domain::id::SquadId;
use crate::domain::squad::{ExecutionMode, Member, Squad, SquadProgress, SquadSummary, StateMode};
use crate::domain::task::Task;

macro_rules! select_squads {
    ($rest:literal) => {
        concat!(
            "SELECT id, principal, state_mode, execution_mode, delay_ms, timeout_ms, metadata, created_at FROM squads ",
            $rest
        )
    };
}

/// Whether the squad was new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SquadAccepted {
    New,
    /// The squad that the same key created before.
    Repeated(SquadId),
}

impl Store {
    /// Accepts a squad with the tasks of its members, or finds the one accepted before with the same request key. A
    /// member whose conversation is in use is accepted as ended.
    pub async fn squad_accept(
        &self,
        squad: &Squad,
        tasks: &[Task],
        key: Option<&RequestKey>,
    ) -> Result<SquadAccepted, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(earlier) = by_key(&mut tx, key).await? {
            return Ok(SquadAccepted::Repeated(earlier));
        }
        insert(&mut tx, squad).await?;
        for (position, member) in squad.members.iter().enumerate() {
            let refused = refused_for_its_chat(&mut tx, squad, member).await?;
            squad_members::insert(&mut tx, squad.id, position, refused.as_ref().unwrap_or(member)).await?;
            for task in tasks.iter().filter(|task| task.id == member.id && refused.is_none()) {
                tasks::insert(&mut tx, task).await?;
            }
        }
        request_keys::remember(&mut tx, key, squad.id.0, squad.created_at).await?;
        tx.commit().await?;
        Ok(SquadAccepted::New)
    }

    /// The squad that the same key created before.
    pub async fn squad_of_key(&self, key: Option<&RequestKey>) -> Result<Option<SquadId>, StoreError> {
        let mut connection = self.read.acquire().await?;
        by_key(&mut connection, key).await
    }

    pub async fn squad_by_id(&self, id: SquadId) -> Result<Option<Squad>, StoreError> {
        let mut read = self.read.begin().await?;
        let row = sqlx::query(select_squads!("WHERE id = $1")).bind(id.0).fetch_optional(&mut *read).await?;
        match row {
            Some(row) => Ok(Some(whole(&mut read, &row).await?)),
            None => Ok(None),
        }
    }

    /// Open squads, oldest first.
    pub async fn squads_open(&self) -> Result<Vec<SquadId>, StoreError> {
        let rows = sqlx::query("SELECT id FROM squads WHERE ended_at IS NULL ORDER BY created_at, id");
        let rows = rows.fetch_all(&self.read).await?;
        Ok(rows.iter().map(|row| row.id("id", SquadId)).collect::<Result<_, _>>()?)
    }

    /// The requester of a squad, and its progress.
    pub async fn squad_progress(&self, id: SquadId) -> Result<Option<(String, SquadProgress)>, StoreError> {
        let row = sqlx::query(
            "SELECT principal, (SELECT count(*) FROM squad_members WHERE squad_id = $1) AS n_members, \
             (SELECT count(ended_at) FROM squad_members WHERE squad_id = $1) AS n_ended FROM squads WHERE id = $1",
        );
        let Some(row) = row.bind(id.0).fetch_optional(&self.read).await? else { return Ok(None) };
        let number = |column| Ok::<_, sqlx::Error>(count(row.try_get(column)?) as usize);
        let progress = SquadProgress { n_ended: number("n_ended")?, n_members: number("n_members")? };
        Ok(Some((row.try_get("principal")?, progress)))
    }

    /// The principal's squads accepted since then, newest first.
    pub async fn squads_since(
        &self,
        principal: &str,
        since: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<SquadSummary>, StoreError> {
        let rows = sqlx::query(
            "SELECT s.id AS squad_id, s.created_at, m.id, m.role, m.ended_at, m.run_id, r.state, r.code, r.reason, \
             r.ended_at AS run_ended_at \
             FROM (SELECT id, created_at FROM squads \
             WHERE created_at >= $1 AND principal = $2 ORDER BY created_at DESC, id DESC LIMIT $3) s \
             JOIN squad_members m ON m.squad_id = s.id LEFT JOIN runs r ON r.id = m.run_id \
             ORDER BY s.created_at DESC, s.id DESC, m.position",
        );
        let rows =
            rows.bind(micros(since)).bind(principal).bind(i64::from(limit)).fetch_all(&self.read).await?;
        let mut squads: Vec<SquadSummary> = Vec::new();
        for row in &rows {
            let (id, member) = (row.id("squad_id", SquadId)?, squad_members::summary(row)?);
            match squads.last_mut().filter(|squad| squad.id == id) {
                Some(squad) => squad.members.push(member),
                None => {
                    let created_at = row.time("created_at")?;
                    squads.push(SquadSummary { id, created_at, members: vec![member] });
                }
            }
        }
        Ok(squads)
    }

    /// Closes a squad if all of its members have ended; false otherwise.
    pub async fn squad_close(&self, id: SquadId, at: DateTime<Utc>) -> Result<bool, StoreError> {
        let update = sqlx::query(
            "UPDATE squads SET ended_at = $1 WHERE id = $2 AND ended_at IS NULL AND NOT EXISTS \
             (SELECT 1 FROM squad_members WHERE squad_id = $2 AND ended_at IS NULL)",
        );
        Ok(update.bind(micros(at)).bind(id.0).execute(&self.write).await?.rows_affected() == 1)
    }
}

/// Checked in the transaction that writes the squad, so that only one of several concurrent requests gets the
/// conversation.
async fn refused_for_its_chat(
    connection: &mut DbConnection,
    squad: &Squad,
    member: &Member,
) -> Result<Option<Member>, StoreError> {
    let chat = member.chat.as_ref().and_then(|chat| chat.id.as_deref());
    let Some(chat) = chat.filter(|_| !member.is_ended()) else { return Ok(None) };
    if !squad_members::chat_is_in_use(connection, chat).await? {
        return Ok(None);
    }
    let reason = format!("chat '{chat}' is in use by another member; wait until that member has ended");
    Ok(Some(member.clone().refused(reason, squad.created_at)))
}

async fn whole(connection: &mut DbConnection, row: &DbRow) -> Result<Squad, StoreError> {
    let id = row.id("id", SquadId)?;
    Ok(Squad {
        id,
        principal: row.try_get("principal")?,
        state_mode: row.word("state_mode", StateMode::parse)?,
        execution_mode: row.word("execution_mode", ExecutionMode::parse)?,
        delay: Duration::from_millis(count(row.try_get("delay_ms")?)),
        timeout: Duration::from_millis(count(row.try_get("timeout_ms")?)),
        metadata: row.try_get("metadata")?,
        created_at: row.time("created_at")?,
        members: squad_members::of(connection, id).await?,
    })
}

async fn insert(connection: &mut DbConnection, squad: &Squad) -> Result<(), StoreError> {
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    sqlx::query(
        "INSERT INTO squads (id, principal, state_mode, execution_mode, delay_ms, timeout_ms, metadata, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(squad.id.0)
    .bind(&squad.principal)
    .bind(squad.state_mode.word())
    .bind(squad.execution_mode.word())
    .bind(millis(squad.delay))
    .bind(millis(squad.timeout))
    .bind(&squad.metadata)
    .bind(micros(squad.created_at))
    .execute(connection)
    .await?;
    Ok(())
}

async fn by_key(
    connection: &mut DbConnection,
    key: Option<&RequestKey>,
) -> Result<Option<SquadId>, StoreError> {
    Ok(request_keys::find(connection, key).await?.map(SquadId))
}
