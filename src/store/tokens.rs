//! Tokens: stored as hashes, and revoked with their parent token.

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use sqlx::{FromRow, Row};

use super::Store;
use super::db::DbRow;
use super::error::StoreError;
use super::row::{Columns, micros, micros_if_any};
use crate::domain::access::AllowedProjects;
use crate::domain::id::{AgentId, TokenId};
use crate::domain::role::RoleKind;

/// The rights of a token; the secret itself is never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub kind: RoleKind,
    pub name: String,
    pub role: Option<String>,
    /// Set for an agent's own token.
    pub agent: Option<AgentId>,
    /// For an agent's token: the start it was made for. It becomes invalid with the next stop.
    pub generation: Option<i64>,
    pub projects: AllowedProjects,
    /// The token whose holder created this one.
    pub parent: Option<TokenId>,
    pub created_at: DateTime<Utc>,
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
}

macro_rules! select_tokens {
    ($rest:literal) => {
        concat!(
            "SELECT id, kind, name, role, agent_id, generation, projects, parent, created_at, expires_at, ",
            "revoked_at FROM tokens ",
            $rest
        )
    };
}

impl Store {
    /// Stores a new token; refuses it if its parent was revoked meanwhile, so that no child outlives its parent.
    pub async fn token_insert(&self, token: &TokenRecord, hash: &[u8; 32]) -> Result<(), StoreError> {
        let inserted = sqlx::query(
            "INSERT INTO tokens (id, hash, kind, name, role, agent_id, projects, parent, created_at, expires_at, \
             revoked_at, generation) SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 \
             WHERE NOT EXISTS (SELECT 1 FROM tokens WHERE id = $8 AND revoked_at IS NOT NULL)",
        )
        .bind(token.id.0)
        .bind(hash.as_slice())
        .bind(token.kind.word())
        .bind(&token.name)
        .bind(&token.role)
        .bind(token.agent.map(|agent| agent.0))
        .bind(names_of(&token.projects).map(Json))
        .bind(token.parent.map(|parent| parent.0))
        .bind(micros(token.created_at))
        .bind(micros_if_any(token.expires_at))
        .bind(micros_if_any(token.revoked_at))
        .bind(token.generation)
        .execute(&self.write)
        .await?;
        if inserted.rows_affected() == 0 { Err(StoreError::ParentRevoked) } else { Ok(()) }
    }

    /// The token with this hash, also if it expired or was revoked: the caller gives the reason.
    pub async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>, StoreError> {
        let query = sqlx::query_as(select_tokens!("WHERE hash = $1")).bind(hash.as_slice());
        Ok(query.fetch_optional(&self.read).await?)
    }

    pub async fn token_by_id(&self, id: TokenId) -> Result<Option<TokenRecord>, StoreError> {
        let query = sqlx::query_as(select_tokens!("WHERE id = $1")).bind(id.0);
        Ok(query.fetch_optional(&self.read).await?)
    }

    /// All tokens, oldest first.
    pub async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        Ok(sqlx::query_as(select_tokens!("ORDER BY created_at, id")).fetch_all(&self.read).await?)
    }

    /// The newest token of this agent.
    pub async fn token_newest_of(&self, agent: AgentId) -> Result<Option<TokenRecord>, StoreError> {
        let query =
            sqlx::query_as(select_tokens!("WHERE agent_id = $1 ORDER BY created_at DESC, id DESC LIMIT 1"));
        Ok(query.bind(agent.0).fetch_optional(&self.read).await?)
    }

    /// Removes expired tokens of agents without child tokens.
    pub async fn tokens_prune(&self, expired_before: DateTime<Utc>) -> Result<u64, StoreError> {
        let prune = sqlx::query(
            "DELETE FROM tokens WHERE agent_id IS NOT NULL AND expires_at < $1 \
             AND NOT EXISTS (SELECT 1 FROM tokens child WHERE child.parent = tokens.id)",
        );
        Ok(prune.bind(micros(expired_before)).execute(&self.write).await?.rows_affected())
    }

    /// Revokes a token and its descendants; returns how many were still valid, none if there is no such token.
    pub async fn token_revoke(&self, id: TokenId, at: DateTime<Utc>) -> Result<Option<u64>, StoreError> {
        let revoked = sqlx::query(
            "WITH RECURSIVE branch (id) AS (SELECT id FROM tokens WHERE id = $1 \
             UNION SELECT t.id FROM tokens t JOIN branch ON t.parent = branch.id) \
             UPDATE tokens SET revoked_at = $2 WHERE revoked_at IS NULL AND id IN (SELECT id FROM branch)",
        )
        .bind(id.0)
        .bind(micros(at))
        .execute(&self.write)
        .await?;
        match revoked.rows_affected() {
            0 => Ok(self.token_is_there(id).await?.then_some(0)),
            n_revoked => Ok(Some(n_revoked)),
        }
    }

    async fn token_is_there(&self, id: TokenId) -> Result<bool, StoreError> {
        let query = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM tokens WHERE id = $1)").bind(id.0);
        Ok(query.fetch_one(&self.read).await?)
    }
}

fn names_of(projects: &AllowedProjects) -> Option<&Vec<String>> {
    match projects {
        AllowedProjects::All => None,
        AllowedProjects::Only(names) => Some(names),
    }
}

fn projects_of(row: &DbRow) -> Result<AllowedProjects, sqlx::Error> {
    let names: Option<Json<Vec<String>>> = row.try_get("projects")?;
    Ok(names.map_or(AllowedProjects::All, |Json(names)| AllowedProjects::Only(names)))
}

impl FromRow<'_, DbRow> for TokenRecord {
    fn from_row(row: &DbRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.id("id", TokenId)?,
            kind: row.word("kind", RoleKind::parse)?,
            name: row.try_get("name")?,
            role: row.try_get("role")?,
            agent: row.id_if_any("agent_id", AgentId)?,
            generation: row.try_get("generation")?,
            projects: projects_of(row)?,
            parent: row.id_if_any("parent", TokenId)?,
            created_at: row.time("created_at")?,
            expires_at: row.time_if_any("expires_at")?,
            revoked_at: row.time_if_any("revoked_at")?,
        })
    }
}
