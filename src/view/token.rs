//! Tokens and the audit trail as operators see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::{Paging, count};
use super::time;
use crate::app::audit::AuditEntry;
use crate::app::tokens::{MintedToken, TokenInfo};
use crate::domain::access::AllowedProjects;
use crate::domain::page::Page;

/// A new token; its text is shown only here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TokenCreated {
    pub id: String,
    pub token: String,
    pub kind: String,
    pub role: Option<String>,
    pub agent: Option<String>,
    pub expires_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TokenRow {
    pub id: String,
    pub name: String,
    pub kind: String,
    pub role: Option<String>,
    pub agent: Option<String>,
    /// Projects the token may act on; null for all.
    pub projects: Option<Vec<String>>,
    pub created_at: String,
    pub expires_at: Option<String>,
    pub revoked_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TokenList {
    pub tokens: Vec<TokenRow>,
    pub total_count: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TokenRevoked {
    pub id: String,
    /// The token itself and the tokens created with it; 0 if it was already revoked.
    pub revoked_count: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AuditList {
    pub entries: Vec<AuditRow>,
    #[serde(flatten)]
    pub paging: Paging,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AuditRow {
    pub at: String,
    pub principal_kind: String,
    pub principal: String,
    /// mcp, rest or boot
    pub surface: String,
    pub action: String,
    pub target: Option<String>,
    /// allowed, denied or failed
    pub outcome: String,
    pub code: Option<String>,
    /// Why a denied call was denied.
    pub reason: Option<String>,
    pub operation_id: Option<String>,
}

impl From<&MintedToken> for TokenCreated {
    fn from(minted: &MintedToken) -> Self {
        let TokenInfo { token, agent_name } = &minted.info;
        Self {
            id: token.id.to_string(),
            token: minted.reveal(),
            kind: token.kind.word().into(),
            role: token.role.clone(),
            agent: agent_name.clone(),
            expires_at: token.expires_at.map(time),
        }
    }
}

impl From<&Vec<TokenInfo>> for TokenList {
    fn from(found: &Vec<TokenInfo>) -> Self {
        Self { tokens: found.iter().map(TokenRow::from).collect(), total_count: count(found.len() as u64) }
    }
}

impl TokenRevoked {
    pub fn of(id: String, revoked: u64) -> Self {
        Self { id, revoked_count: count(revoked) }
    }
}

impl From<&TokenInfo> for TokenRow {
    fn from(info: &TokenInfo) -> Self {
        let token = &info.token;
        Self {
            id: token.id.to_string(),
            name: token.name.clone(),
            kind: token.kind.word().into(),
            role: token.role.clone(),
            agent: info.agent_name.clone(),
            projects: match &token.projects {
                AllowedProjects::All => None,
                AllowedProjects::Only(projects) => Some(projects.clone()),
            },
            created_at: time(token.created_at),
            expires_at: token.expires_at.map(time),
            revoked_at: token.revoked_at.map(time),
        }
    }
}

impl From<&Page<AuditEntry>> for AuditList {
    fn from(page: &Page<AuditEntry>) -> Self {
        Self { entries: page.items.iter().map(AuditRow::from).collect(), paging: Paging::of(page) }
    }
}

impl From<&AuditEntry> for AuditRow {
    fn from(entry: &AuditEntry) -> Self {
        Self {
            at: time(entry.at),
            principal_kind: entry.principal_kind.word().into(),
            principal: entry.principal.clone(),
            surface: entry.surface.clone(),
            action: entry.action.clone(),
            target: entry.target.clone(),
            outcome: entry.outcome.word().into(),
            code: entry.code.clone(),
            reason: entry.reason.clone(),
            operation_id: entry.operation_id.map(|id| id.to_string()),
        }
    }
}
