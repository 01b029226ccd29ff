//! Sightings: the last observation of each agent, and the revision that counts visible changes.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::{FromRow, Row};

use super::db::{DbConnection, DbRow};
use super::error::StoreError;
use super::row::{Columns, micros, micros_if_any, truncated};
use super::{Store, agents};
use crate::domain::agent::{Agent, AgentStatus, Attention, Sighting};
use crate::domain::id::AgentId;
use crate::domain::operation::OperationKind;
use crate::domain::status::Verdict;

/// One observation of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSighting {
    pub verdict: Verdict,
    pub generation: i64,
    /// None if it was not observed at Coder: then the time of the last observation stays.
    pub observed_at: Option<DateTime<Utc>>,
}

impl Store {
    /// The highest revision given out.
    pub async fn revision(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("SELECT value FROM fleet_revision").fetch_one(&self.read).await?)
    }

    /// Records one observation. Only a visible change gets a new revision; a deleted agent is unchanged.
    pub async fn agent_sight(&self, id: AgentId, seen: &NewSighting) -> Result<Sighting, StoreError> {
        let sighted = self.agents_sight(&[(id, seen.clone())]).await?;
        sighted.into_iter().next().map(|(_, sighting)| sighting).ok_or(StoreError::Missing("agent"))
    }

    /// Records observations of many agents in one transaction; unknown agents are skipped.
    pub async fn agents_sight(
        &self,
        looks: &[(AgentId, NewSighting)],
    ) -> Result<Vec<(AgentId, Sighting)>, StoreError> {
        let mut tx = self.begin().await?;
        let mut known = HashMap::new();
        for (id, _) in looks {
            if let Some(sighting) = by_agent(&mut tx, *id).await? {
                known.insert(*id, sighting);
            }
        }
        let mut sighted = Vec::with_capacity(known.len());
        for (id, seen) in looks {
            if let Some(last) = known.get_mut(id) {
                *last = look(&mut tx, (*id, last), seen).await?;
                sighted.push((*id, last.clone()));
            }
        }
        tx.commit().await?;
        Ok(sighted)
    }
}

/// The first sighting of a new agent, with a new revision.
pub(super) async fn insert(connection: &mut DbConnection, agent: &Agent) -> Result<(), sqlx::Error> {
    let sighting = &agent.sighting;
    let revision = next_revision(connection).await?;
    sqlx::query(
        "INSERT INTO sightings (agent_id, status, previous_status, reason, attention, generation, observed_at, \
         updated_at, revision) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(agent.id.0)
    .bind(sighting.status.word())
    .bind(sighting.previous_status.map(AgentStatus::word))
    .bind(&sighting.reason)
    .bind(sighting.attention.word())
    .bind(sighting.generation)
    .bind(micros_if_any(sighting.observed_at))
    .bind(micros(agent.updated_at))
    .bind(revision)
    .execute(connection)
    .await
    .map(drop)
}

/// A visible change that was not observed at Coder.
pub(super) async fn change(
    connection: &mut DbConnection,
    (id, last): (AgentId, &Sighting),
    verdict: &Verdict,
    at: DateTime<Utc>,
) -> Result<Sighting, sqlx::Error> {
    let changed = Sighting {
        status: verdict.status,
        previous_status: Some(last.status),
        reason: verdict.reason.clone(),
        attention: verdict.attention,
        revision: next_revision(connection).await?,
        ..last.clone()
    };
    write(connection, id, &changed, at).await?;
    Ok(changed)
}

/// A new revision for a change outside of the sighting, such as a rename.
pub(super) async fn touch(connection: &mut DbConnection, id: AgentId) -> Result<(), sqlx::Error> {
    let revision = next_revision(connection).await?;
    sqlx::query("UPDATE sightings SET previous_status = status, revision = $1 WHERE agent_id = $2")
        .bind(revision)
        .bind(id.0)
        .execute(connection)
        .await
        .map(drop)
}

async fn look(
    connection: &mut DbConnection,
    (id, last): (AgentId, &Sighting),
    seen: &NewSighting,
) -> Result<Sighting, sqlx::Error> {
    if last.status == AgentStatus::Deleted
        || (seen.observed_at.is_some() && is_being_deleted(connection, id).await?)
    {
        return Ok(last.clone());
    }
    let is_same = last.status == seen.verdict.status
        && last.reason == seen.verdict.reason
        && last.attention == seen.verdict.attention
        && last.generation == seen.generation;
    let observed = Sighting {
        generation: seen.generation,
        observed_at: seen.observed_at.map(truncated).or(last.observed_at),
        ..last.clone()
    };
    if is_same {
        if let Some(at) = seen.observed_at {
            note_time(connection, id, at).await?;
        }
        return Ok(observed);
    }
    let at = seen.observed_at.unwrap_or_else(Utc::now);
    // A workspace that Coder reports as deleted deletes its agent.
    if seen.verdict.status == AgentStatus::Deleted {
        agents::mark_deleted(connection, id, at).await?;
    }
    change(connection, (id, &observed), &seen.verdict, at).await
}

/// Once its delete is accepted, an agent's status follows the delete, whatever Coder still shows.
pub(super) async fn is_being_deleted(
    connection: &mut DbConnection,
    id: AgentId,
) -> Result<bool, sqlx::Error> {
    let open = sqlx::query("SELECT 1 FROM operations WHERE agent_id = $1 AND kind = $2 AND ended_at IS NULL")
        .bind(id.0)
        .bind(OperationKind::Delete.word())
        .fetch_optional(connection)
        .await?;
    Ok(open.is_some())
}

async fn note_time(connection: &mut DbConnection, id: AgentId, at: DateTime<Utc>) -> Result<(), sqlx::Error> {
    let note = sqlx::query(
        "UPDATE sightings SET observed_at = $1 WHERE agent_id = $2 AND observed_at IS DISTINCT FROM $1",
    );
    note.bind(micros(at)).bind(id.0).execute(connection).await.map(drop)
}

async fn write(
    connection: &mut DbConnection,
    id: AgentId,
    sighting: &Sighting,
    at: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE sightings SET status = $1, previous_status = $2, reason = $3, attention = $4, generation = $5, \
         observed_at = $6, updated_at = $7, revision = $8 WHERE agent_id = $9",
    )
    .bind(sighting.status.word())
    .bind(sighting.previous_status.map(AgentStatus::word))
    .bind(&sighting.reason)
    .bind(sighting.attention.word())
    .bind(sighting.generation)
    .bind(micros_if_any(sighting.observed_at))
    .bind(micros(at))
    .bind(sighting.revision)
    .bind(id.0)
    .execute(connection)
    .await
    .map(drop)
}

async fn by_agent(connection: &mut DbConnection, id: AgentId) -> Result<Option<Sighting>, sqlx::Error> {
    sqlx::query_as(
        "SELECT status, previous_status, reason, attention, generation, observed_at, revision FROM sightings \
         WHERE agent_id = $1",
    )
    .bind(id.0)
    .fetch_optional(connection)
    .await
}

/// The next revision; never reused, even if its agent is removed.
async fn next_revision(connection: &mut DbConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("UPDATE fleet_revision SET value = value + 1 RETURNING value")
        .fetch_one(connection)
        .await
}

impl FromRow<'_, DbRow> for Sighting {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            status: row.word("status", AgentStatus::parse)?,
            previous_status: row.word_if_any("previous_status", AgentStatus::parse)?,
            reason: row.try_get("reason")?,
            attention: row.word("attention", Attention::parse)?,
            generation: row.try_get("generation")?,
            observed_at: row.time_if_any("observed_at")?,
            revision: row.try_get("revision")?,
        })
    }
}
