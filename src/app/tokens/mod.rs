//! Tokens: created once, stored as a hash, looked up at every request.

mod check;
mod lapse;
mod refused;
mod secret;

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};

use super::Fleet;
use super::caller::{AuditedCall, Caller, Permit, TokenManage};
use super::error::Error;
use super::snapshot::AgentState;
use crate::domain::access::{AllowedProjects, Target};
use crate::domain::id::TokenId;
use crate::domain::role::RoleKind;
use crate::files::{self, Durability};
use crate::store::TokenRecord;

pub(super) use refused::RefusedCalls;
pub use refused::{AttemptedCall, RefusedToken, UNAUTHENTICATED};
pub(super) use secret::{fresh_text, hash_of, texts_in};

#[derive(Debug, Clone)]
pub struct CreateToken {
    /// None: the kind of the given role, or of the agent.
    pub kind: Option<RoleKind>,
    pub name: Option<String>,
    pub role: Option<String>,
    pub agent: Option<String>,
    pub projects: AllowedProjects,
    pub expires_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone)]
pub struct TokenInfo {
    pub token: TokenRecord,
    pub agent_name: Option<String>,
}

/// A created token with its text.
#[derive(Debug)]
pub struct MintedToken {
    pub info: TokenInfo,
    text: SecretString,
}

impl MintedToken {
    /// The text, for the only response that contains it.
    pub fn reveal(&self) -> String {
        self.text.expose_secret().to_owned()
    }
}

impl Fleet {
    pub async fn token_create(&self, caller: &Caller, request: CreateToken) -> Result<MintedToken, Error> {
        let call = AuditedCall { caller, action: TokenManage, target: request.name.clone() };
        let permit = self.permit(&call, Target::Fleet).await?;
        let result = self.token_mint(&permit, request).await;
        self.audited(&call, result, |_| None).await
    }

    pub async fn token_list(&self, caller: &Caller) -> Result<Vec<TokenInfo>, Error> {
        let call = AuditedCall { caller, action: TokenManage, target: None };
        self.permit(&call, Target::Fleet).await?;
        let tokens = self.store().tokens().await?;
        let mut found = Vec::with_capacity(tokens.len());
        for token in tokens {
            found.push(TokenInfo { agent_name: self.agent_name_of(&token).await?, token });
        }
        Ok(found)
    }

    /// Revokes the token and all its descendants; returns how many were valid.
    pub async fn token_revoke(&self, caller: &Caller, id: &str) -> Result<u64, Error> {
        let call = AuditedCall { caller, action: TokenManage, target: Some(id.to_owned()) };
        let permit = self.permit(&call, Target::Fleet).await?;
        let result = self.token_revoke_by_id(&permit, id).await;
        self.audited(&call, result, |_| None).await
    }

    /// The token in a file for local clients: the existing one if it is valid, else a new one.
    pub async fn token_in_file(
        &self,
        kind: RoleKind,
        name: &str,
        file: &Path,
    ) -> Result<SecretString, std::io::Error> {
        if let Ok(text) = std::fs::read_to_string(file) {
            let text = SecretString::from(text.trim().to_owned());
            if self.token_principal(&text).await.is_ok_and(|found| found.is_ok()) {
                return Ok(text);
            }
        }
        let text = fresh_text();
        self.store()
            .token_insert(&record(kind, name), &hash_of(&text))
            .await
            .map_err(std::io::Error::other)?;
        files::replace(file, text.expose_secret().as_bytes(), Durability::Synced)?;
        Ok(text)
    }

    async fn token_mint(
        &self,
        permit: &Permit<'_, TokenManage, Target<'_>>,
        request: CreateToken,
    ) -> Result<MintedToken, Error> {
        let agent = request.agent.as_deref().map(|name| self.running_agent(name)).transpose()?;
        let kind = self.token_kind(&request, agent.as_deref())?;
        let agent_name = agent.as_ref().map(|agent| agent.agent.name.to_string());
        let name = request.name.or_else(|| agent_name.clone()).unwrap_or_else(|| kind.word().to_owned());
        let token = TokenRecord {
            role: request.role.or_else(|| agent.as_ref().map(|agent| agent.agent.role.clone())),
            agent: agent.as_ref().map(|agent| agent.agent.id),
            generation: agent.as_ref().map(|agent| agent.standing().coming_generation()),
            projects: request.projects,
            parent: permit.call().caller.principal.token_id,
            expires_at: request.expires_at,
            ..record(kind, &name)
        };
        let text = fresh_text();
        self.store().token_insert(&token, &hash_of(&text)).await?;
        Ok(MintedToken { info: TokenInfo { token, agent_name }, text })
    }

    /// A requested kind is used as it is and must match a given role. Agents have the kind of their role; operator
    /// rights are for people only.
    fn token_kind(&self, request: &CreateToken, agent: Option<&AgentState>) -> Result<RoleKind, Error> {
        let of_role = request.role.as_deref().map(|role| self.role_kind(role)).transpose()?;
        let role = request.role.as_deref().unwrap_or_default();
        match (request.kind, of_role, agent) {
            (Some(kind), Some(other), _) if kind != other => {
                let message = format!("role '{role}' is of kind {other}, but the token is of kind {kind}");
                Err(Error::invalid("role", message))
            }
            (Some(kind), _, _) => Ok(kind),
            (None, Some(RoleKind::Operator), _) => {
                let message = format!("role '{role}' is for operators; an agent cannot have it");
                Err(Error::invalid("role", message))
            }
            (None, Some(kind), _) => Ok(kind),
            (None, None, Some(agent)) => Ok(agent.kind),
            (None, None, None) => {
                let message = "a token of kind agent needs an agent or a role";
                Err(Error::invalid("agent", message))
            }
        }
    }

    /// An agent that is not stopped: tokens of stopped agents are invalid.
    fn running_agent(&self, name: &str) -> Result<Arc<AgentState>, Error> {
        let snapshot = self.board().now();
        let state = snapshot.by_name(name).ok_or_else(|| Error::AgentNotFound(name.to_owned()))?;
        if state.standing().is_stopped() {
            let (name, status) = (state.agent.name.to_string(), state.agent.sighting.status);
            return Err(Error::NotReady { name, status });
        }
        Ok(Arc::clone(state))
    }

    async fn token_revoke_by_id(
        &self,
        _: &Permit<'_, TokenManage, Target<'_>>,
        id: &str,
    ) -> Result<u64, Error> {
        let parsed = id.parse().map(TokenId).map_err(|_| Error::TokenNotFound(id.to_owned()))?;
        let revoked = self.store().token_revoke(parsed, Utc::now()).await?;
        self.0.tokens.send_modify(|n| *n += 1);
        revoked.ok_or_else(|| Error::TokenNotFound(id.to_owned()))
    }

    async fn agent_name_of(&self, token: &TokenRecord) -> Result<Option<String>, Error> {
        let Some(id) = token.agent else { return Ok(None) };
        Ok(self.store().agent_by_id(id).await?.map(|agent| agent.name.to_string()))
    }
}

/// A person's token without restrictions, as a base for other tokens.
pub(super) fn record(kind: RoleKind, name: &str) -> TokenRecord {
    TokenRecord {
        id: TokenId::fresh(),
        kind,
        name: name.to_owned(),
        role: None,
        agent: None,
        generation: None,
        projects: AllowedProjects::All,
        parent: None,
        created_at: Utc::now(),
        expires_at: None,
        revoked_at: None,
    }
}
