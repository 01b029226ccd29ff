//! Operations with their agents, for listings.

use sqlx::{FromRow, Row};

use super::Store;
use super::db::DbRow;
use super::error::StoreError;
use crate::domain::id::OperationId;
use crate::domain::operation::Operation;

/// How many ended operations a listing covers.
const ENDED: i64 = 1_000;

/// An operation, with the data that decides who may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedOperation {
    pub operation: Operation,
    pub agent_name: String,
    pub project: String,
    pub role: String,
    pub created_by: Option<String>,
    /// What it is waiting for; set by the caller, since the store does not know.
    pub awaited: Option<String>,
}

macro_rules! select_listed {
    ($rest:literal) => {
        concat!(
            "SELECT o.id, o.agent_id, o.kind, o.state, o.step, o.sent_at, o.base_build, o.build, o.build_ended_at, ",
            "o.principal, o.failure_code, o.failure_message, o.cancel_by, o.cancel_at, o.created_at, o.updated_at, ",
            "a.name AS agent_name, a.project, a.role, a.created_by ",
            "FROM operations o JOIN agents a ON a.id = o.agent_id ",
            $rest
        )
    };
}

impl Store {
    /// Open operations of one agent or of all, newest first.
    pub async fn operations_listed_open(
        &self,
        name_key: Option<&str>,
    ) -> Result<Vec<ListedOperation>, StoreError> {
        let query = sqlx::query_as(select_listed!(
            "WHERE o.ended_at IS NULL AND ($1 IS NULL OR a.name_key = $1) ORDER BY o.sequence DESC"
        ));
        Ok(query.bind(name_key).fetch_all(&self.read).await?)
    }

    /// Ended operations of one agent or of all, newest first, up to a limit.
    pub async fn operations_listed_ended(
        &self,
        name_key: Option<&str>,
    ) -> Result<Vec<ListedOperation>, StoreError> {
        let query = sqlx::query_as(select_listed!(
            "WHERE o.ended_at IS NOT NULL AND ($1 IS NULL OR a.name_key = $1) ORDER BY o.sequence DESC LIMIT $2"
        ));
        Ok(query.bind(name_key).bind(ENDED).fetch_all(&self.read).await?)
    }

    pub async fn operation_listed(&self, id: OperationId) -> Result<Option<ListedOperation>, StoreError> {
        let query = sqlx::query_as(select_listed!("WHERE o.id = $1")).bind(id.0);
        Ok(query.fetch_optional(&self.read).await?)
    }
}

impl FromRow<'_, DbRow> for ListedOperation {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            operation: Operation::from_row(row)?,
            agent_name: row.try_get("agent_name")?,
            project: row.try_get("project")?,
            role: row.try_get("role")?,
            created_by: row.try_get("created_by")?,
            awaited: None,
        })
    }
}
