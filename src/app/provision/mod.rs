//! Provisions each start of an agent: token, role, engine configuration, server address and budget.

mod files;
mod write;

use std::path::Path;

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use uuid::Uuid;

use super::Fleet;
use super::error::Error;
use super::snapshot::AgentState;
use super::tokens::{self, fresh_text, hash_of};
use super::workspace_exec::WorkspaceExecError;
use crate::domain::access::{AllowedProjects, signing_agent};
use crate::domain::id::TokenId;
use crate::domain::provision::{Callback, MCP_FILE, Provision, ROLE_FILE, TOKEN_FILE, TOKEN_LIFETIME};
use crate::domain::role::Role;
use crate::engine::{FleetAccess, RolePrompt};
use crate::store::{StoreError, TokenRecord};
use files::{AgentFiles, config_toml};

/// Instructions for reporting, appended to every role's prompt.
const REPORTING: &str = include_str!("reporting.md");

/// The files delivered to an agent, and why a delivery failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProvisionState {
    pub delivered: Option<Provision>,
    pub failure: Option<String>,
}

/// Why an agent could not be provisioned, in a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProvisionError(pub(super) String);

impl From<Error> for ProvisionError {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<StoreError> for ProvisionError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::ParentRevoked => {
                Self("the token of the manager that created it is revoked: restart that manager".to_owned())
            }
            other => Self(other.to_string()),
        }
    }
}

impl From<WorkspaceExecError> for ProvisionError {
    fn from(error: WorkspaceExecError) -> Self {
        match error {
            WorkspaceExecError::Late => Self("the workspace does not respond".to_owned()),
            WorkspaceExecError::Exec(error) => {
                Self(format!("the workspace could not be written to: {error}"))
            }
        }
    }
}

impl AgentState {
    /// How this start of the agent reaches the server, as far as it was probed.
    pub fn callback(&self) -> Option<Callback> {
        let delivered = self.provision_state.delivered.as_ref()?;
        let is_current = delivered.generation == self.agent.sighting.generation;
        (is_current && !self.standing().is_stopped()).then_some(delivered.callback)
    }

    /// Why the agent cannot call the server, with the remedy.
    pub fn callback_reason(&self) -> Option<String> {
        if self.standing().is_stopped() {
            return None;
        }
        if self.has_no_workspace_agent() {
            return Some("its workspace has no Coder agent, so no files can be written to it".into());
        }
        if let Some(failure) = &self.provision_state.failure {
            return Some(failure.clone());
        }
        match self.callback()? {
            Callback::Unreachable => {
                let url = self
                    .provision_state
                    .delivered
                    .as_ref()
                    .map(|delivered| delivered.url.as_str())
                    .unwrap_or_default();
                Some(format!(
                    "the workspace cannot reach {url}: set FLEET_PUBLIC_URL to an address that the \
                    workspace can reach, and restart the server"
                ))
            }
            Callback::Direct | Callback::Unknown => None,
        }
    }
}

impl AgentState {
    /// Whether no file can be written; agentless projects have no workspace agent by design.
    pub(super) fn has_no_workspace_agent(&self) -> bool {
        let is_seen = self.live.poll_began.is_some() && self.agent.sighting.status.is_ready();
        is_seen && self.live.workspace_agent.is_none()
    }
}

impl AgentState {
    /// The files of this start, unless they are known to be unusable.
    fn usable_provision(&self) -> Option<&Provision> {
        let is_of_use = self.callback().is_some_and(|callback| callback != Callback::Unreachable);
        self.provision_state.delivered.as_ref().filter(|_| is_of_use)
    }

    /// How an engine reaches the server by the files of this start in that directory.
    pub(super) fn fleet_access(&self, directory: &Path) -> Option<FleetAccess> {
        let delivered = self.usable_provision()?;
        Some(FleetAccess {
            mcp_json: directory.join(MCP_FILE),
            config_toml: config_toml(&delivered.url),
            token: directory.join(TOKEN_FILE),
        })
    }
}

impl Fleet {
    /// Whether the files of this start are delivered, or known not to come.
    pub(super) fn is_provisioned(&self, state: &AgentState) -> bool {
        self.options().callback_url.is_none()
            || state.callback().is_some()
            || state.callback_reason().is_some()
    }

    /// The role's prompt, with its file for engines that take a path.
    pub(super) fn role_prompt(&self, state: &AgentState, directory: &Path) -> Option<RolePrompt> {
        let text = prompt_of(&self.role_for(state).ok()?);
        Some(RolePrompt { text, file: directory.join(ROLE_FILE) })
    }

    /// Writes all files with a new token and records them. The token is revoked if its delivery is not confirmed.
    pub(super) async fn agent_provision(
        &self,
        state: &AgentState,
        workspace_agent: Uuid,
        url: &str,
    ) -> Result<Provision, ProvisionError> {
        let role = self.role_for(state)?;
        let expires_at = Utc::now() + TOKEN_LIFETIME;
        let (id, token) = self.agent_token(state, expires_at).await?;
        let files = AgentFiles {
            token: &token,
            url,
            prompt: &prompt_of(&role),
            budget: self.options().budget.narrowed_by(role.budget),
        };
        let generation = state.agent.sighting.generation;
        let workspace_exec = self.workspace_exec(workspace_agent, &state.agent.project);
        let callback = match workspace_exec.files_write(&files, generation).await {
            Ok(callback) => callback,
            Err(failure) => {
                self.store().token_revoke(id, Utc::now()).await?;
                return Err(failure);
            }
        };
        let provision = Provision {
            agent_id: state.agent.id,
            generation,
            url: url.to_owned(),
            callback,
            token_expires_at: expires_at,
            at: Utc::now(),
        };
        self.store().provision_set(&provision).await?;
        Ok(provision)
    }

    pub(super) fn role_for(&self, state: &AgentState) -> Result<Role, Error> {
        let found = self.discovered()?;
        let project = found.project(&state.agent.project).ok_or_else(|| Error::CatalogNotFound {
            what: "project",
            name: state.agent.project.clone(),
            known: "those of list_agent_projects".to_owned(),
        })?;
        self.role_of_project(project, &state.agent.role)
    }

    /// A token for this start only. Its parent is the newest token of the manager agent that created the agent.
    async fn agent_token(
        &self,
        state: &AgentState,
        expires_at: DateTime<Utc>,
    ) -> Result<(TokenId, SecretString), ProvisionError> {
        let agent = &state.agent;
        let maker = agent.created_by.as_deref().and_then(signing_agent);
        let parent = match maker {
            Some(maker) => self.store().token_newest_of(maker).await?.map(|token| token.id),
            None => None,
        };
        let token = TokenRecord {
            role: Some(agent.role.clone()),
            agent: Some(agent.id),
            generation: Some(agent.sighting.generation),
            // A manager agent manages its own project; people may give it a wider token.
            projects: AllowedProjects::Only(vec![agent.project.clone()]),
            parent,
            expires_at: Some(expires_at),
            ..tokens::record(state.kind, agent.name.as_str())
        };
        let text = fresh_text();
        self.store().token_insert(&token, &hash_of(&text)).await?;
        Ok((token.id, text))
    }
}

/// The prompt of an engine: the role and the instructions for reporting.
pub(super) fn prompt_of(role: &Role) -> String {
    format!("{}\n\n{REPORTING}", role.prompt.trim_end())
}
