//! Squads: accepted whole with the tasks of their members, found by who asked, over when all members are.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::error::StoreError;
use super::row::{Columns, count, micros};
use super::{RequestKey, Store, request_keys, squad_members, tasks};
use crate::domain::id::SquadId;
use crate::domain::squad::{ExecutionMode, Squad, StateMode};
use crate::domain::task::Task;

macro_rules! select_squads {
    ($rest:literal) => {
        concat!(
            "SELECT id, principal, state_mode, execution_mode, delay_ms, timeout_ms, metadata, created_at FROM squads ",
            $rest
        )
    };
}

/// Was the squad new?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SquadAccepted {
    New,
    /// The squad that the same key made before.
    Repeated(SquadId),
}

impl Store {
    /// Accepts a squad with the tasks of its members, or finds the one accepted before with the same request key.
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
            squad_members::insert(&mut tx, squad.id, position, member).await?;
        }
        for task in tasks {
            tasks::insert(&mut tx, task).await?;
        }
        request_keys::remember(&mut tx, key, squad.id.0, squad.created_at).await?;
        tx.commit().await?;
        Ok(SquadAccepted::New)
    }

    /// The squad that the same key made before.
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

    /// Those that go on, oldest first.
    pub async fn squads_open(&self) -> Result<Vec<SquadId>, StoreError> {
        let rows = sqlx::query("SELECT id FROM squads WHERE ended_at IS NULL ORDER BY created_at, id");
        let rows = rows.fetch_all(&self.read).await?;
        Ok(rows.iter().map(|row| row.id("id", SquadId)).collect::<Result<_, _>>()?)
    }

    /// Those accepted since then, newest first; of one principal, or of all.
    pub async fn squads_since(
        &self,
        principal: Option<&str>,
        since: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<Squad>, StoreError> {
        let mut read = self.read.begin().await?;
        let rows = sqlx::query(select_squads!(
            "WHERE created_at >= $1 AND ($2 IS NULL OR principal = $2) ORDER BY created_at DESC, id DESC LIMIT $3"
        ));
        let rows = rows.bind(micros(since)).bind(principal).bind(limit).fetch_all(&mut *read).await?;
        let mut squads = Vec::with_capacity(rows.len());
        for row in rows {
            squads.push(whole(&mut read, &row).await?);
        }
        Ok(squads)
    }

    /// Closes a squad all of whose members have ended; false while one goes on.
    pub async fn squad_close(&self, id: SquadId, at: DateTime<Utc>) -> Result<bool, StoreError> {
        let update = sqlx::query(
            "UPDATE squads SET ended_at = $1 WHERE id = $2 AND ended_at IS NULL AND NOT EXISTS \
             (SELECT 1 FROM squad_members WHERE squad_id = $2 AND ended_at IS NULL)",
        );
        Ok(update.bind(micros(at)).bind(id.0).execute(&self.write).await?.rows_affected() == 1)
    }
}

async fn whole(connection: &mut SqliteConnection, row: &SqliteRow) -> Result<Squad, StoreError> {
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

async fn insert(connection: &mut SqliteConnection, squad: &Squad) -> Result<(), StoreError> {
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
    connection: &mut SqliteConnection,
    key: Option<&RequestKey>,
) -> Result<Option<SquadId>, StoreError> {
    Ok(request_keys::find(connection, key).await?.map(SquadId))
}
