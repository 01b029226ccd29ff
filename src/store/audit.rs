//! The audit trail: who called what, and the result; rows are only ever added.

use std::fmt;

use chrono::{DateTime, Utc};
use sqlx::{FromRow, Row};

use super::Store;
use super::db::DbRow;
use super::error::StoreError;
use super::row::{Columns, count, micros};
use crate::domain::id::{OperationId, TokenId};
use crate::domain::page::{Page, PageRequest};
use crate::domain::role::RoleKind;
use crate::domain::word_enum::word_enum;

/// One call in the trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    pub at: DateTime<Utc>,
    pub principal_kind: RoleKind,
    pub principal: String,
    pub token_id: Option<TokenId>,
    /// The interface of the call, such as mcp or rest.
    pub surface: String,
    pub action: String,
    pub target: Option<String>,
    pub outcome: AuditOutcome,
    /// The error's code, if there was one.
    pub code: Option<String>,
    /// Why it was denied.
    pub reason: Option<String>,
    pub operation_id: Option<OperationId>,
}

word_enum! {
    AuditOutcome {
        Allowed = "allowed",
        Denied = "denied",
        Failed = "failed",
    }
}

impl Store {
    pub async fn audit_add(&self, row: &AuditRow) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO audit (at, principal_kind, principal, token_id, surface, action, target, outcome, code, \
             operation_id, reason) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(micros(row.at))
        .bind(row.principal_kind.word())
        .bind(&row.principal)
        .bind(row.token_id.map(|token| token.0))
        .bind(&row.surface)
        .bind(&row.action)
        .bind(&row.target)
        .bind(row.outcome.word())
        .bind(&row.code)
        .bind(row.operation_id.map(|operation| operation.0))
        .bind(&row.reason)
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Adds the missing rows of operations that were accepted right before a kill. An operation of a task or a
    /// squad is named by that tool and belongs to its row.
    pub async fn audit_complete(&self) -> Result<u64, StoreError> {
        let insert = sqlx::query(
            "INSERT INTO audit (at, principal_kind, principal, surface, action, target, outcome, operation_id, reason) \
             SELECT o.created_at, COALESCE((SELECT t.kind FROM tokens t WHERE t.name = o.principal \
             ORDER BY t.created_at DESC LIMIT 1), 'operator'), o.principal, 'restart', o.kind || '_agent', a.name, \
             'allowed', o.id, 'recorded at the next start: the server was killed before' \
             FROM operations o JOIN agents a ON a.id = o.agent_id WHERE o.principal NOT IN \
             ('start_squad_members', 'cancel_agent_task') \
             AND NOT EXISTS (SELECT 1 FROM audit known WHERE known.operation_id = o.id)",
        );
        Ok(insert.execute(&self.write).await?.rows_affected())
    }

    /// The trail in the order written, newest first.
    pub async fn audit_page(&self, page: PageRequest) -> Result<Page<AuditRow>, StoreError> {
        let mut read = self.read.begin().await?;
        let total: i64 = sqlx::query_scalar("SELECT count(*) FROM audit").fetch_one(&mut *read).await?;
        let items = sqlx::query_as(
            "SELECT at, principal_kind, principal, token_id, surface, action, target, outcome, code, operation_id, \
             reason FROM audit ORDER BY sequence DESC LIMIT $1 OFFSET $2",
        )
        .bind(i64::from(page.size()))
        .bind(page.offset().cast_signed())
        .fetch_all(&mut *read)
        .await?;
        Ok(Page { items, total_count: count(total), request: page })
    }
}

impl FromRow<'_, DbRow> for AuditRow {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            at: row.time("at")?,
            principal_kind: row.word("principal_kind", RoleKind::parse)?,
            principal: row.try_get("principal")?,
            token_id: row.id_if_any("token_id", TokenId)?,
            surface: row.try_get("surface")?,
            action: row.try_get("action")?,
            target: row.try_get("target")?,
            outcome: row.word("outcome", AuditOutcome::parse)?,
            code: row.try_get("code")?,
            reason: row.try_get("reason")?,
            operation_id: row.id_if_any("operation_id", OperationId)?,
        })
    }
}
