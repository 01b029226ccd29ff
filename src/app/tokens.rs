//! Tokens: minted once, kept as a hash, looked up at every request.

use std::path::Path;

use chrono::{DateTime, Utc};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use super::Fleet;
use super::caller::{Caller, Deed};
use super::error::Error;
use crate::domain::access::{Action, AllowedProjects, Principal, Target};
use crate::domain::id::TokenId;
use crate::domain::name::name_key;
use crate::domain::role::RoleKind;
use crate::store::TokenRecord;

/// Every token of ours starts so: recognisable in a leak, refused early elsewhere.
const PREFIX: &str = "fleet_";
const RANDOM_BYTES: usize = 32;

#[derive(Debug, Clone)]
pub struct CreateToken {
    /// None: the kind of the agent's role.
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

/// A token whose text is still known.
#[derive(Debug)]
pub struct Minted {
    pub info: TokenInfo,
    text: SecretString,
}

impl Minted {
    /// The text, for the one answer that may carry it.
    pub fn reveal(&self) -> String {
        self.text.expose_secret().to_owned()
    }
}

impl Fleet {
    /// The principal of a token; none if it is unknown, expired or revoked.
    pub async fn token_principal(&self, text: &SecretString) -> Result<Option<Principal>, Error> {
        if !text.expose_secret().starts_with(PREFIX) {
            return Ok(None);
        }
        let token = self.store().token_by_hash(&hash_of(text)).await?;
        Ok(token.filter(|token| is_alive(token, Utc::now())).map(principal_of))
    }

    pub async fn token_create(&self, caller: &Caller, request: CreateToken) -> Result<Minted, Error> {
        let deed = Deed { caller, action: Action::TokenManage, target: request.name.clone() };
        self.permit(&deed, Target::Fleet).await?;
        let result = self.token_mint(caller, request).await;
        self.audited(&deed, result, |_| None).await
    }

    pub async fn token_list(&self, caller: &Caller) -> Result<Vec<TokenInfo>, Error> {
        let deed = Deed { caller, action: Action::TokenManage, target: None };
        self.permit(&deed, Target::Fleet).await?;
        let tokens = self.store().tokens().await?;
        let mut found = Vec::with_capacity(tokens.len());
        for token in tokens {
            found.push(TokenInfo { agent_name: self.agent_name_of(&token).await?, token });
        }
        Ok(found)
    }

    /// Revokes the token and all that hang under it; returns how many that were.
    pub async fn token_revoke(&self, caller: &Caller, id: &str) -> Result<u64, Error> {
        let deed = Deed { caller, action: Action::TokenManage, target: Some(id.to_owned()) };
        self.permit(&deed, Target::Fleet).await?;
        let result = self.token_revoke_by_id(id).await;
        self.audited(&deed, result, |_| None).await
    }

    /// The token that is kept in a file for local clients: the one there if it is good, else a fresh one.
    pub async fn token_in_file(
        &self,
        kind: RoleKind,
        name: &str,
        file: &Path,
    ) -> Result<SecretString, std::io::Error> {
        if let Ok(text) = std::fs::read_to_string(file) {
            let text = SecretString::from(text.trim().to_owned());
            if self.token_principal(&text).await.is_ok_and(|found| found.is_some()) {
                return Ok(text);
            }
        }
        let text = fresh_text();
        self.store()
            .token_insert(&record(kind, name), &hash_of(&text))
            .await
            .map_err(std::io::Error::other)?;
        write_private(file, text.expose_secret())?;
        Ok(text)
    }

    async fn token_mint(&self, caller: &Caller, request: CreateToken) -> Result<Minted, Error> {
        let agent = match &request.agent {
            Some(name) => {
                let found = self.store().agent_by_name(&name_key(name)).await?;
                Some(found.ok_or_else(|| Error::AgentNotFound(name.clone()))?)
            }
            None if request.kind.is_none() && request.role.is_none() => {
                return Err(Error::invalid(
                    "agent",
                    "a token of kind agent names its agent, or at least a role",
                ));
            }
            None => None,
        };
        let role = request.role.or_else(|| agent.as_ref().map(|agent| agent.role.clone()));
        let kind = match (request.kind, &role) {
            (Some(kind), _) => kind,
            (None, Some(role)) => self.role_kind(role)?,
            (None, None) => RoleKind::Coding,
        };
        let default_name =
            agent.as_ref().map_or_else(|| kind.word().to_owned(), |agent| agent.name.to_string());
        let name = request.name.unwrap_or(default_name);
        let token = TokenRecord {
            role,
            agent: agent.as_ref().map(|agent| agent.id),
            projects: request.projects,
            parent: caller.principal.token_id,
            expires_at: request.expires_at,
            ..record(kind, &name)
        };
        let text = fresh_text();
        self.store().token_insert(&token, &hash_of(&text)).await?;
        Ok(Minted { info: TokenInfo { token, agent_name: agent.map(|agent| agent.name.to_string()) }, text })
    }

    async fn token_revoke_by_id(&self, id: &str) -> Result<u64, Error> {
        let parsed = id.parse().map(TokenId).map_err(|_| Error::TokenNotFound(id.to_owned()))?;
        match self.store().token_revoke(parsed, Utc::now()).await? {
            0 => Err(Error::TokenNotFound(id.to_owned())),
            revoked => Ok(revoked),
        }
    }

    async fn agent_name_of(&self, token: &TokenRecord) -> Result<Option<String>, Error> {
        let Some(id) = token.agent else { return Ok(None) };
        Ok(self.store().agent_by_id(id).await?.map(|agent| agent.name.to_string()))
    }
}

fn record(kind: RoleKind, name: &str) -> TokenRecord {
    TokenRecord {
        id: TokenId::fresh(),
        kind,
        name: name.to_owned(),
        role: None,
        agent: None,
        projects: AllowedProjects::All,
        parent: None,
        created_at: Utc::now(),
        expires_at: None,
        revoked_at: None,
    }
}

fn is_alive(token: &TokenRecord, now: DateTime<Utc>) -> bool {
    token.revoked_at.is_none() && token.expires_at.is_none_or(|at| now < at)
}

fn principal_of(token: TokenRecord) -> Principal {
    Principal {
        kind: token.kind,
        name: token.name,
        role: token.role,
        token_id: Some(token.id),
        agent: token.agent,
        projects: token.projects,
    }
}

fn fresh_text() -> SecretString {
    let bytes: [u8; RANDOM_BYTES] = rand::random();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    SecretString::from(format!("{PREFIX}{hex}"))
}

fn hash_of(text: &SecretString) -> [u8; 32] {
    Sha256::digest(text.expose_secret().as_bytes()).into()
}

/// Written whole beside its place first, readable by its owner alone from the start.
fn write_private(file: &Path, text: &str) -> Result<(), std::io::Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let fresh = file.with_extension("fresh");
    let mut options = std::fs::OpenOptions::new();
    let mut handle = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    handle.write_all(text.as_bytes())?;
    handle.sync_all()?;
    std::fs::rename(&fresh, file)
}
