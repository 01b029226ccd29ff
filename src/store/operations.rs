//! Operations: durable intents in the order they were accepted, with their progress.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, Row};

use super::db::{DbConnection, DbQuery, DbRow};
use super::error::StoreError;
use super::row::{Columns, both, micros, micros_if_any, unreadable};
use super::sightings::is_being_deleted;
use super::{RequestKey, Store, request_keys, rescues, sightings};
use crate::domain::id::{AgentId, OperationId};
use crate::domain::operation::{
    CancelRequest, Failure, Operation, OperationEnd, OperationKind, OperationState, Progress, Subject,
};

/// The code of a canceled operation's note.
const CANCELED: &str = "CANCELED";

macro_rules! select_operations {
    ($rest:literal) => {
        concat!(
            "SELECT id, agent_id, kind, state, step, sent_at, base_build, build, build_ended_at, principal, ",
            "failure_code, failure_message, cancel_by, cancel_at, created_at, updated_at FROM operations ",
            $rest
        )
    };
}

/// Whether the request was new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    New,
    /// The operation that the same key created before, or the delete in progress.
    Repeated(Operation),
}

impl Store {
    /// Accepts an intent, or finds the one accepted before with the same request key. After the delete of an agent
    /// nothing else is accepted: it could be carried out neither before nor after the delete.
    pub async fn operation_accept(
        &self,
        operation: &Operation,
        key: Option<&RequestKey>,
    ) -> Result<Accepted, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(earlier) = by_key(&mut tx, key).await? {
            return Ok(Accepted::Repeated(earlier));
        }
        if is_being_deleted(&mut tx, operation.agent_id()).await? {
            return Err(StoreError::BeingDeleted);
        }
        insert(&mut tx, operation).await?;
        request_keys::remember(&mut tx, key, operation.id.0, operation.created_at).await?;
        tx.commit().await?;
        Ok(Accepted::New)
    }

    pub async fn operation_by_id(&self, id: OperationId) -> Result<Option<Operation>, StoreError> {
        let mut connection = self.read.acquire().await?;
        Ok(by_id(&mut connection, id).await?)
    }

    /// The operation that an earlier request with this key created.
    pub async fn operation_by_key(&self, key: Option<&RequestKey>) -> Result<Option<Operation>, StoreError> {
        let mut connection = self.read.acquire().await?;
        by_key(&mut connection, key).await
    }

    /// Open operations, in the order accepted.
    pub async fn operations_open(&self) -> Result<Vec<Operation>, StoreError> {
        let query = sqlx::query_as(select_operations!("WHERE ended_at IS NULL ORDER BY sequence"));
        Ok(query.fetch_all(&self.read).await?)
    }

    /// The newest operations of an agent, newest first.
    pub async fn operations_of(&self, agent: AgentId, limit: u32) -> Result<Vec<Operation>, StoreError> {
        let query = sqlx::query_as(select_operations!("WHERE agent_id = $1 ORDER BY sequence DESC LIMIT $2"));
        Ok(query.bind(agent.0).bind(i64::from(limit)).fetch_all(&self.read).await?)
    }

    /// Records the progress of an operation, before or after an outside effect.
    pub async fn operation_progress(
        &self,
        id: OperationId,
        progress: Progress,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let update = sqlx::query(
            "UPDATE operations SET state = $1, step = $2, sent_at = $3, base_build = $4, build = $5, \
             build_ended_at = $6, updated_at = $7 WHERE id = $8 AND ended_at IS NULL",
        )
        .bind(progress.state().word());
        let mut tx = self.begin().await?;
        let update = bind_progress(update, progress).bind(micros(at)).bind(id.0);
        if update.execute(&mut *tx).await?.rows_affected() == 0 {
            require(&mut tx, id).await?;
            return Err(StoreError::Ended);
        }
        Ok(tx.commit().await?)
    }

    /// Ends an operation. False if it had ended already: an end is never changed.
    pub async fn operation_end(
        &self,
        id: OperationId,
        end: &OperationEnd,
        at: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let note = note_of(end);
        let mut tx = self.begin().await?;
        let ended = sqlx::query(
            "UPDATE operations SET state = $1, failure_code = $2, failure_message = $3, updated_at = $4, \
             ended_at = $4 WHERE id = $5 AND ended_at IS NULL",
        )
        .bind(end.state().word())
        .bind(note.map(|(code, _)| code))
        .bind(note.map(|(_, message)| message))
        .bind(micros(at))
        .bind(id.0)
        .execute(&mut *tx)
        .await?;
        let operation = by_id(&mut tx, id).await?.ok_or(StoreError::Missing("operation"))?;
        // The agent itself may be unchanged, but watchers of changes must be notified.
        if ended.rows_affected() == 1 && matches!(end, OperationEnd::Canceled(_)) {
            sightings::touch(&mut tx, operation.agent_id()).await?;
        }
        tx.commit().await?;
        Ok(ended.rows_affected() == 1)
    }

    /// Records a request to cancel an operation; the first requester is kept.
    pub async fn operation_cancel(
        &self,
        id: OperationId,
        request: &CancelRequest,
    ) -> Result<Operation, StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "UPDATE operations SET cancel_by = $1, cancel_at = $2 \
             WHERE id = $3 AND ended_at IS NULL AND cancel_at IS NULL",
        )
        .bind(&request.by)
        .bind(micros(request.at))
        .bind(id.0)
        .execute(&mut *tx)
        .await?;
        let operation = by_id(&mut tx, id).await?.ok_or(StoreError::Missing("operation"))?;
        if operation.is_ended() {
            return Err(StoreError::Ended);
        }
        tx.commit().await?;
        Ok(operation)
    }

    /// Cancels the earlier operations of the agent that is being deleted, in the name of the delete's caller unless
    /// another caller canceled them before; returns the ids in the order accepted.
    pub async fn operations_cancel_before(
        &self,
        delete: OperationId,
        agent: AgentId,
        at: DateTime<Utc>,
    ) -> Result<Vec<OperationId>, StoreError> {
        let mut tx = self.begin().await?;
        let rows = sqlx::query(
            "UPDATE operations SET state = $1, updated_at = $2, ended_at = $2, \
             cancel_by = COALESCE(cancel_by, (SELECT principal FROM operations WHERE id = $4)), \
             cancel_at = COALESCE(cancel_at, $2) \
             WHERE agent_id = $3 AND ended_at IS NULL \
             AND sequence < (SELECT sequence FROM operations WHERE id = $4) RETURNING id, sequence",
        )
        .bind(OperationState::Canceled.word())
        .bind(micros(at))
        .bind(agent.0)
        .bind(delete.0)
        .fetch_all(&mut *tx)
        .await?;
        rescues::overtake(&mut tx, agent).await?;
        tx.commit().await?;
        let canceled =
            rows.iter().map(|row| Ok((row.try_get::<i64, _>("sequence")?, row.id("id", OperationId)?)));
        let mut canceled = canceled.collect::<Result<Vec<_>, sqlx::Error>>()?;
        canceled.sort_unstable();
        Ok(canceled.into_iter().map(|(_, id)| id).collect())
    }
}

/// Code and message to be reported later.
fn note_of(end: &OperationEnd) -> Option<(&str, &str)> {
    match end {
        OperationEnd::Failed(failure) => Some((&failure.code, &failure.message)),
        OperationEnd::Canceled(left) => left.as_deref().map(|left| (CANCELED, left)),
        OperationEnd::Done => None,
    }
}

pub(super) async fn by_key(
    connection: &mut DbConnection,
    key: Option<&RequestKey>,
) -> Result<Option<Operation>, StoreError> {
    match request_keys::find(connection, key).await? {
        Some(id) => Ok(by_id(connection, OperationId(id)).await?),
        None => Ok(None),
    }
}

pub(super) async fn by_id(
    connection: &mut DbConnection,
    id: OperationId,
) -> Result<Option<Operation>, sqlx::Error> {
    sqlx::query_as(select_operations!("WHERE id = $1")).bind(id.0).fetch_optional(connection).await
}

/// The agent's open delete that is not canceled.
pub(super) async fn open_delete(
    connection: &mut DbConnection,
    agent: AgentId,
) -> Result<Option<Operation>, sqlx::Error> {
    let query = sqlx::query_as(select_operations!(
        "WHERE agent_id = $1 AND kind = $2 AND ended_at IS NULL AND cancel_at IS NULL ORDER BY sequence LIMIT 1"
    ));
    query.bind(agent.0).bind(OperationKind::Delete.word()).fetch_optional(connection).await
}

pub(super) async fn insert(connection: &mut DbConnection, operation: &Operation) -> Result<(), StoreError> {
    let agents: i64 = sqlx::query_scalar("SELECT count(*) FROM agents WHERE id = $1")
        .bind(operation.agent_id().0)
        .fetch_one(&mut *connection)
        .await?;
    if agents == 0 {
        return Err(StoreError::Missing("agent"));
    }
    let note = operation.end.as_ref().and_then(note_of);
    let insert = sqlx::query(
        "INSERT INTO operations (id, agent_id, kind, state, step, sent_at, base_build, build, build_ended_at, \
         principal, failure_code, failure_message, created_at, updated_at, ended_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
    )
    .bind(operation.id.0)
    .bind(operation.agent_id().0)
    .bind(operation.kind.word())
    .bind(operation.state().word());
    bind_progress(insert, operation.progress)
        .bind(&operation.principal)
        .bind(note.map(|(code, _)| code))
        .bind(note.map(|(_, message)| message))
        .bind(micros(operation.created_at))
        .bind(micros(operation.updated_at))
        .bind(operation.is_ended().then(|| micros(operation.updated_at)))
        .execute(connection)
        .await?;
    Ok(())
}

async fn require(connection: &mut DbConnection, id: OperationId) -> Result<(), StoreError> {
    by_id(connection, id).await?.map(drop).ok_or(StoreError::Missing("operation"))
}

const ACCEPTED: &str = "accepted";
const SENDING: &str = "sending";
const FOLLOWING: &str = "following";

/// The five columns of a progress: step, sent_at, base_build, build, build_ended_at.
fn bind_progress(query: DbQuery<'_>, progress: Progress) -> DbQuery<'_> {
    let (step, sent, following) = match progress {
        Progress::Accepted => (ACCEPTED, None, None),
        Progress::Sending { sent_at, base_build } => (SENDING, Some((sent_at, base_build)), None),
        Progress::Following { build, ended_at } => (FOLLOWING, None, Some((build, ended_at))),
    };
    query
        .bind(step)
        .bind(sent.map(|(sent_at, _)| micros(sent_at)))
        .bind(sent.map(|(_, base_build)| base_build))
        .bind(following.map(|(build, _)| build))
        .bind(following.and_then(|(_, ended_at)| micros_if_any(ended_at)))
}

fn progress_of(row: &DbRow) -> Result<Progress, sqlx::Error> {
    match row.try_get("step")? {
        ACCEPTED => Ok(Progress::Accepted),
        SENDING => {
            Ok(Progress::Sending { sent_at: row.time("sent_at")?, base_build: row.try_get("base_build")? })
        }
        FOLLOWING => Ok(Progress::Following {
            build: row.try_get("build")?,
            ended_at: row.time_if_any("build_ended_at")?,
        }),
        other => Err(unreadable("step", other)),
    }
}

fn failure_of(row: &DbRow) -> Result<Option<Failure>, sqlx::Error> {
    let pair = both("failure_code", (row.try_get("failure_code")?, row.try_get("failure_message")?))?;
    Ok(pair.map(|(code, message)| Failure { code, message }))
}

/// None for an open operation; a row that contradicts itself is refused.
fn end_of(row: &DbRow, progress: Progress) -> Result<Option<OperationEnd>, sqlx::Error> {
    let state = row.word("state", OperationState::parse)?;
    Ok(match (state, failure_of(row)?) {
        (OperationState::Done, None) => Some(OperationEnd::Done),
        (OperationState::Failed, Some(failure)) => Some(OperationEnd::Failed(failure)),
        (OperationState::Canceled, left) => Some(OperationEnd::Canceled(left.map(|left| left.message))),
        (OperationState::Pending | OperationState::Running, None) if state == progress.state() => None,
        (OperationState::Pending | OperationState::Running | OperationState::Done, _)
        | (OperationState::Failed, None) => return Err(unreadable("state", state)),
    })
}

fn cancel_of(row: &DbRow) -> Result<Option<CancelRequest>, sqlx::Error> {
    let pair = both("cancel_by", (row.try_get("cancel_by")?, row.time_if_any("cancel_at")?))?;
    Ok(pair.map(|(by, at)| CancelRequest { by, at }))
}

impl FromRow<'_, DbRow> for Operation {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        let progress = progress_of(row)?;
        Ok(Self {
            id: row.id("id", OperationId)?,
            subject: Subject::Agent(row.id("agent_id", AgentId)?),
            kind: row.word("kind", OperationKind::parse)?,
            progress,
            end: end_of(row, progress)?,
            principal: row.try_get("principal")?,
            cancel: cancel_of(row)?,
            created_at: row.time("created_at")?,
            updated_at: row.time("updated_at")?,
        })
    }
}
