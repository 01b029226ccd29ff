//! Agents: live and deleted, by name, workspace and id.

use chrono::{DateTime, Utc};
use sqlx::{FromRow, Row};

use super::db::{DbConnection, DbRow};
use super::error::StoreError;
use super::row::{Columns, count, micros, micros_if_any};
use super::sightings;
use super::{Accepted, RequestKey, Store, operations, request_keys, task_moves, tasks};
use crate::domain::agent::{Agent, AgentStatus, Sighting};
use crate::domain::id::{AgentId, WorkspaceId};
use crate::domain::name::AgentName;
use crate::domain::operation::Operation;
use crate::domain::page::{Page, PageRequest};
use crate::domain::status::Verdict;
use crate::domain::task::Task;

/// A query for whole agents; `a` is the agent, `s` its sighting.
macro_rules! select_agents {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, a.name, a.workspace_id, a.project, a.role, a.spec, a.pull_request_url, a.directory, ",
            "a.created_by, a.created_at, a.deleted_at, s.status, s.previous_status, s.reason, s.attention, ",
            "s.generation, s.observed_at, s.updated_at, s.revision FROM agents a JOIN sightings s ON s.agent_id = a.id ",
            $rest
        )
    };
}

impl Store {
    pub async fn agent_by_id(&self, id: AgentId) -> Result<Option<Agent>, StoreError> {
        let query = sqlx::query_as(select_agents!("WHERE a.id = $1")).bind(id.0);
        Ok(query.fetch_optional(&self.read).await?)
    }

    /// The agent that had the name last: the live one, else the one deleted last.
    pub async fn agent_newest_by_name(&self, name_key: &str) -> Result<Option<Agent>, StoreError> {
        let query = sqlx::query_as(select_agents!(
            "WHERE a.name_key = $1 \
             ORDER BY CASE WHEN a.deleted_at IS NULL THEN 0 ELSE 1 END, a.deleted_at DESC, a.id DESC LIMIT 1"
        ));
        Ok(query.bind(name_key).fetch_optional(&self.read).await?)
    }

    pub async fn agent_by_workspace(&self, id: WorkspaceId) -> Result<Option<Agent>, StoreError> {
        let query = sqlx::query_as(select_agents!("WHERE a.workspace_id = $1")).bind(id.0);
        Ok(query.fetch_optional(&self.read).await?)
    }

    pub async fn agents_live(&self) -> Result<Vec<Agent>, StoreError> {
        let query = sqlx::query_as(select_agents!("WHERE a.deleted_at IS NULL ORDER BY a.name_key"));
        Ok(query.fetch_all(&self.read).await?)
    }

    /// Deleted agents, latest deletion first.
    pub async fn agents_deleted(&self, page: PageRequest) -> Result<Page<Agent>, StoreError> {
        let mut read = self.read.begin().await?;
        let total: i64 = sqlx::query_scalar("SELECT count(*) FROM agents WHERE deleted_at IS NOT NULL")
            .fetch_one(&mut *read)
            .await?;
        let items = sqlx::query_as(select_agents!(
            "WHERE a.deleted_at IS NOT NULL ORDER BY a.deleted_at DESC, a.id DESC LIMIT $1 OFFSET $2"
        ))
        .bind(i64::from(page.size()))
        .bind(page.offset().cast_signed())
        .fetch_all(&mut *read)
        .await?;
        Ok(Page { items, total_count: count(total), request: page })
    }

    /// Live and deleted agents with a change after this revision, in the order of the changes.
    pub async fn agents_changed_after(&self, revision: i64) -> Result<Vec<Agent>, StoreError> {
        let query = sqlx::query_as(select_agents!("WHERE s.revision > $1 ORDER BY s.revision"));
        Ok(query.bind(revision).fetch_all(&self.read).await?)
    }

    /// Creates an agent with its operation and first task in one transaction.
    pub async fn agent_create(
        &self,
        agent: &Agent,
        operation: &Operation,
        task: Option<&Task>,
        key: Option<&RequestKey>,
    ) -> Result<Accepted, StoreError> {
        let mut tx = self.begin().await?;
        if let Some(earlier) = operations::by_key(&mut tx, key).await? {
            return Ok(Accepted::Repeated(earlier));
        }
        insert(&mut tx, agent).await?;
        operations::insert(&mut tx, operation).await?;
        if let Some(task) = task {
            tasks::insert(&mut tx, task).await?;
        }
        request_keys::remember(&mut tx, key, operation.id.0, operation.created_at).await?;
        tx.commit().await?;
        Ok(Accepted::New)
    }

    /// Adopts a workspace that existed before this fleet.
    pub async fn agent_adopt(&self, agent: &Agent) -> Result<Agent, StoreError> {
        let mut tx = self.begin().await?;
        insert(&mut tx, agent).await?;
        let adopted = by_id(&mut tx, agent.id).await?;
        tx.commit().await?;
        Ok(adopted)
    }

    pub async fn agent_workspace_set(&self, id: AgentId, workspace: WorkspaceId) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        claim_workspace(&mut tx, id, workspace).await?;
        let set =
            sqlx::query("UPDATE agents SET workspace_id = $1 WHERE id = $2").bind(workspace.0).bind(id.0);
        if set.execute(&mut *tx).await?.rows_affected() == 0 {
            return Err(StoreError::Missing("agent"));
        }
        Ok(tx.commit().await?)
    }

    /// Follows a rename of the workspace outside of the fleet.
    pub async fn agent_rename(&self, id: AgentId, name: &AgentName) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let agent = by_id(&mut tx, id).await?;
        if agent.name == *name {
            return Ok(());
        }
        if agent.deleted_at.is_none() {
            claim_name(&mut tx, id, name).await?;
        }
        sqlx::query("UPDATE agents SET name = $1, name_key = $2 WHERE id = $3")
            .bind(name.as_str())
            .bind(name.key())
            .bind(id.0)
            .execute(&mut *tx)
            .await?;
        sightings::touch(&mut tx, id).await?;
        Ok(tx.commit().await?)
    }

    /// Marks the agent deleted, which frees the name; safe to repeat.
    pub async fn agent_delete(&self, id: AgentId, at: DateTime<Utc>) -> Result<Sighting, StoreError> {
        let mut tx = self.begin().await?;
        let agent = by_id(&mut tx, id).await?;
        if agent.deleted_at.is_some() {
            return Ok(agent.sighting);
        }
        mark_deleted(&mut tx, id, at).await?;
        let verdict = Verdict::new(AgentStatus::Deleted, "the workspace is gone");
        let sighting = sightings::change(&mut tx, (id, &agent.sighting), &verdict, at).await?;
        tx.commit().await?;
        Ok(sighting)
    }

    /// Removes an agent that never had a workspace, with all its rows; safe to repeat.
    pub async fn agent_discard(&self, id: AgentId) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let workspace: Option<Option<uuid::Uuid>> =
            sqlx::query_scalar("SELECT workspace_id FROM agents WHERE id = $1")
                .bind(id.0)
                .fetch_optional(&mut *tx)
                .await?;
        if workspace.flatten().is_some() {
            return Err(StoreError::HasWorkspace);
        }
        sqlx::query("DELETE FROM agents WHERE id = $1").bind(id.0).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }
}

pub(super) async fn mark_deleted(
    connection: &mut DbConnection,
    id: AgentId,
    at: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let mark = sqlx::query("UPDATE agents SET deleted_at = $1 WHERE id = $2").bind(micros(at)).bind(id.0);
    mark.execute(&mut *connection).await?;
    task_moves::end_all(connection, id, at).await
}

async fn by_id(connection: &mut DbConnection, id: AgentId) -> Result<Agent, StoreError> {
    let query = sqlx::query_as(select_agents!("WHERE a.id = $1")).bind(id.0);
    query.fetch_optional(connection).await?.ok_or(StoreError::Missing("agent"))
}

async fn insert(connection: &mut DbConnection, agent: &Agent) -> Result<(), StoreError> {
    if agent.deleted_at.is_none() {
        claim_name(connection, agent.id, &agent.name).await?;
    }
    if let Some(workspace) = agent.workspace_id {
        claim_workspace(connection, agent.id, workspace).await?;
    }
    sqlx::query(
        "INSERT INTO agents (id, name, name_key, workspace_id, project, role, spec, pull_request_url, directory, \
         created_by, created_at, deleted_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(agent.id.0)
    .bind(agent.name.as_str())
    .bind(agent.name.key())
    .bind(agent.workspace_id.map(|workspace| workspace.0))
    .bind(&agent.project)
    .bind(&agent.role)
    .bind(&agent.spec)
    .bind(&agent.pull_request_url)
    .bind(&agent.directory)
    .bind(&agent.created_by)
    .bind(micros(agent.created_at))
    .bind(micros_if_any(agent.deleted_at))
    .execute(&mut *connection)
    .await?;
    Ok(sightings::insert(connection, agent).await?)
}

async fn claim_name(connection: &mut DbConnection, id: AgentId, name: &AgentName) -> Result<(), StoreError> {
    let others: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM agents WHERE name_key = $1 AND deleted_at IS NULL AND id <> $2",
    )
    .bind(name.key())
    .bind(id.0)
    .fetch_one(connection)
    .await?;
    if others == 0 { Ok(()) } else { Err(StoreError::NameTaken) }
}

async fn claim_workspace(
    connection: &mut DbConnection,
    id: AgentId,
    workspace: WorkspaceId,
) -> Result<(), StoreError> {
    let others: i64 = sqlx::query_scalar("SELECT count(*) FROM agents WHERE workspace_id = $1 AND id <> $2")
        .bind(workspace.0)
        .bind(id.0)
        .fetch_one(connection)
        .await?;
    if others == 0 { Ok(()) } else { Err(StoreError::WorkspaceTaken) }
}

impl FromRow<'_, DbRow> for Agent {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.id("id", AgentId)?,
            name: row.word("name", |name| AgentName::parse(name).ok())?,
            workspace_id: row.id_if_any("workspace_id", WorkspaceId)?,
            project: row.try_get("project")?,
            role: row.try_get("role")?,
            spec: row.try_get("spec")?,
            pull_request_url: row.try_get("pull_request_url")?,
            directory: row.try_get("directory")?,
            created_by: row.try_get("created_by")?,
            created_at: row.time("created_at")?,
            updated_at: row.time("updated_at")?,
            deleted_at: row.time_if_any("deleted_at")?,
            sighting: Sighting::from_row(row)?,
        })
    }
}
