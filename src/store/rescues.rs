//! Rescues: the work of deleted agents, from the acceptance of the delete on.

use sqlx::{FromRow, Row};

use super::db::{DbConnection, DbQuery, DbRow};
use super::error::StoreError;
use super::row::{Columns, count, micros, unreadable};
use super::{Accepted, RequestKey, Store, journal, operations, request_keys};
use crate::domain::history::{HistoryEntry, Report};
use crate::domain::id::{AgentId, OperationId, RescueId};
use crate::domain::name::AgentName;
use crate::domain::operation::Operation;
use crate::domain::page::{Page, PageRequest};
use crate::domain::rescue::{Rescue, RescueOutcome, SavedWork};

macro_rules! select_rescues {
    ($rest:literal) => {
        concat!(
            "SELECT id, operation_id, agent_id, agent_name, project, state, since, file, bytes, commit_id, note, ",
            "created_at FROM rescues ",
            $rest
        )
    };
}

impl Store {
    /// Accepts a delete together with its rescue, in one transaction. If a delete of the agent is in progress, that
    /// one is returned, with its own choice of what to keep.
    pub async fn delete_accept(
        &self,
        operation: &Operation,
        rescue: Option<&Rescue>,
        key: Option<&RequestKey>,
    ) -> Result<Accepted, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(earlier) = operations::by_key(&mut tx, key).await? {
            return Ok(Accepted::Repeated(earlier));
        }
        if let Some(open) = operations::open_delete(&mut tx, operation.agent_id()).await? {
            request_keys::remember(&mut tx, key, open.id.0, operation.created_at).await?;
            tx.commit().await?;
            return Ok(Accepted::Repeated(open));
        }
        operations::insert(&mut tx, operation).await?;
        if let Some(rescue) = rescue {
            insert(&mut tx, rescue).await?;
        }
        request_keys::remember(&mut tx, key, operation.id.0, operation.created_at).await?;
        tx.commit().await?;
        Ok(Accepted::New)
    }

    pub async fn rescue_by_id(&self, id: RescueId) -> Result<Option<Rescue>, StoreError> {
        let query = sqlx::query_as(select_rescues!("WHERE id = $1")).bind(id.0);
        Ok(query.fetch_optional(&self.read).await?)
    }

    /// The rescues whose ids are in this range, inclusive; the newest first, up to a limit.
    pub async fn rescues_between(
        &self,
        (first, last): (RescueId, RescueId),
        limit: u32,
    ) -> Result<Vec<Rescue>, StoreError> {
        let query = sqlx::query_as(select_rescues!(
            "WHERE id >= $1 AND id <= $2 ORDER BY created_at DESC, id DESC LIMIT $3"
        ));
        Ok(query.bind(first.0).bind(last.0).bind(i64::from(limit)).fetch_all(&self.read).await?)
    }

    /// The newest rescue of agents of this name, case-insensitive: the newest with saved work, if there is one.
    pub async fn rescue_of_name(&self, name: &AgentName) -> Result<Option<Rescue>, StoreError> {
        let query = sqlx::query_as(select_rescues!(
            "WHERE lower(agent_name) = lower($1) \
             ORDER BY CASE WHEN state = 'saved' THEN 0 ELSE 1 END, created_at DESC, id DESC LIMIT 1"
        ));
        Ok(query.bind(name.as_str()).fetch_optional(&self.read).await?)
    }

    /// The rescue that precedes this delete.
    pub async fn rescue_of(&self, delete: OperationId) -> Result<Option<Rescue>, StoreError> {
        let query = sqlx::query_as(select_rescues!("WHERE operation_id = $1")).bind(delete.0);
        Ok(query.fetch_optional(&self.read).await?)
    }

    /// All of them, the newest first.
    pub async fn rescues_page(&self, page: PageRequest) -> Result<Page<Rescue>, StoreError> {
        let mut read = self.read.begin().await?;
        let total: i64 = sqlx::query_scalar("SELECT count(*) FROM rescues").fetch_one(&mut *read).await?;
        let items = sqlx::query_as(select_rescues!("ORDER BY created_at DESC, id DESC LIMIT $1 OFFSET $2"))
            .bind(i64::from(page.size()))
            .bind(page.offset().cast_signed())
            .fetch_all(&mut *read)
            .await?;
        Ok(Page { items, total_count: count(total), request: page })
    }

    /// Records the progress of a rescue, with a history entry for its end. An ended rescue is unchanged; then the
    /// result is false.
    pub async fn rescue_move(
        &self,
        id: RescueId,
        to: &RescueOutcome,
        report: Option<&Report>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let update = sqlx::query(
            "UPDATE rescues SET state = $1, since = $2, file = $3, bytes = $4, commit_id = $5, note = $6 \
             WHERE id = $7 AND state IN ('wanted', 'trying')",
        );
        let moved = bind_outcome(update, to).bind(id.0).execute(&mut *tx).await?.rows_affected() == 1;
        if let Some(report) = report.filter(|_| moved) {
            journal::insert(&mut tx, &[HistoryEntry::Report(report.clone())]).await?;
        }
        tx.commit().await?;
        Ok(moved)
    }
}

/// Ends the rescues of an agent's canceled deletes, in favour of a later delete with its own rescue.
pub(super) async fn overtake(connection: &mut DbConnection, agent: AgentId) -> Result<(), sqlx::Error> {
    let update = sqlx::query(
        "UPDATE rescues SET state = $1, since = $2, file = $3, bytes = $4, commit_id = $5, note = $6 \
         WHERE agent_id = $7 AND state IN ('wanted', 'trying') AND operation_id IN \
         (SELECT id FROM operations WHERE agent_id = $7 AND ended_at IS NOT NULL)",
    );
    let overtaken = RescueOutcome::Failed { reason: "it was replaced by a later delete".to_owned() };
    bind_outcome(update, &overtaken).bind(agent.0).execute(connection).await.map(drop)
}

async fn insert(connection: &mut DbConnection, rescue: &Rescue) -> Result<(), sqlx::Error> {
    let insert = sqlx::query(
        "INSERT INTO rescues (state, since, file, bytes, commit_id, note, id, operation_id, agent_id, agent_name, \
         project, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    );
    bind_outcome(insert, &rescue.outcome)
        .bind(rescue.id.0)
        .bind(rescue.operation_id.0)
        .bind(rescue.agent_id.0)
        .bind(rescue.agent_name.as_str())
        .bind(&rescue.project)
        .bind(micros(rescue.created_at))
        .execute(connection)
        .await
        .map(drop)
}

const WANTED: &str = "wanted";
const TRYING: &str = "trying";
const SAVED: &str = "saved";
const NOTHING: &str = "nothing";
const FAILED: &str = "failed";

/// The six columns of an outcome: state, since, file, bytes, commit_id, note.
fn bind_outcome<'q>(query: DbQuery<'q>, outcome: &'q RescueOutcome) -> DbQuery<'q> {
    let (state, since, saved, note) = match outcome {
        RescueOutcome::Wanted => (WANTED, None, None, None),
        RescueOutcome::Trying { since } => (TRYING, Some(micros(*since)), None, None),
        RescueOutcome::Saved(saved) => (SAVED, None, Some(saved), saved.note.as_ref()),
        RescueOutcome::Nothing => (NOTHING, None, None, None),
        RescueOutcome::Failed { reason } => (FAILED, None, None, Some(reason)),
    };
    query
        .bind(state)
        .bind(since)
        .bind(saved.map(|saved| &saved.file))
        .bind(saved.map(|saved| saved.bytes.cast_signed()))
        .bind(saved.map(|saved| &saved.commit))
        .bind(note)
}

fn outcome_of(row: &DbRow) -> Result<RescueOutcome, sqlx::Error> {
    match row.try_get("state")? {
        WANTED => Ok(RescueOutcome::Wanted),
        TRYING => Ok(RescueOutcome::Trying { since: row.time("since")? }),
        SAVED => Ok(RescueOutcome::Saved(SavedWork {
            file: row.try_get("file")?,
            bytes: count(row.try_get("bytes")?),
            commit: row.try_get("commit_id")?,
            note: row.try_get("note")?,
        })),
        NOTHING => Ok(RescueOutcome::Nothing),
        FAILED => Ok(RescueOutcome::Failed { reason: row.try_get("note")? }),
        other => Err(unreadable("state", other)),
    }
}

impl FromRow<'_, DbRow> for Rescue {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.id("id", RescueId)?,
            operation_id: row.id("operation_id", OperationId)?,
            agent_id: row.id("agent_id", AgentId)?,
            agent_name: row.word("agent_name", |name| AgentName::parse(name).ok())?,
            project: row.try_get("project")?,
            outcome: outcome_of(row)?,
            created_at: row.time("created_at")?,
        })
    }
}
