//! Adopts a workspace that was created outside of the fleet as an agent in its current state.

use std::sync::Arc;

use super::absorb::PollContext;
use super::observe::{metadata_values, resource_values};
use crate::app::Fleet;
use crate::app::discovery::ProjectInfo;
use crate::app::error::Error;
use crate::app::snapshot::AgentState;
use crate::coder::wire::Workspace;
use crate::coder::{CoderError, ErrorKind};
use crate::domain::agent::{Agent, AgentStatus, Attention, Sighting};
use crate::domain::id::{AgentId, WorkspaceId};
use crate::domain::metadata::{AGENT_SPEC, Metadata};
use crate::domain::name::AgentName;
use crate::store::{LatestTasks, StoreError};

const ROLE: &str = "fleet_mcp_role";

impl Fleet {
    /// Adopts an unknown workspace of a project, unless an operation of the fleet is creating it.
    pub(super) async fn adopt(
        &self,
        workspace: &Workspace,
        context: PollContext<'_>,
    ) -> Result<Option<Arc<AgentState>>, Error> {
        let Ok(name) = AgentName::parse(&workspace.name) else { return Ok(None) };
        if self.board().now().by_name(name.as_str()).is_some() {
            return Ok(None);
        }
        let role = match self.role_of_workspace(workspace).await {
            Ok(role) => role,
            Err(error) => {
                tracing::warn!(
                    agent.name = workspace.name, %error,
                    "the preset of a workspace could not be read"
                );
                if is_transient(&error) {
                    return Ok(None);
                }
                None
            }
        };
        let mut agent = adopted(workspace, context.info, name);
        if let Some(role) = role {
            agent.role = self.role_of_project(context.info, &role).map_or(role, |role| role.id);
        }
        agent.sighting = self.first_sighting(&agent, workspace, context).await?;
        match self.store().agent_adopt(&agent).await {
            Ok(agent) => self.board_refresh(agent.id).await,
            Err(StoreError::NameTaken | StoreError::WorkspaceTaken) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The role set by the template, else by the workspace's preset. The agent's own metadata does not count, since a
    /// role carries rights.
    async fn role_of_workspace(&self, workspace: &Workspace) -> Result<Option<String>, CoderError> {
        if let Some(role) = resource_values(workspace).remove(ROLE) {
            return Ok(Some(role));
        }
        let build = &workspace.latest_build;
        match build.template_version_preset_id {
            Some(preset) => self.preset_name(build.template_version_id, preset).await,
            None => Ok(None),
        }
    }

    /// The first sighting, so that an agent is never listed without a state.
    async fn first_sighting(
        &self,
        agent: &Agent,
        workspace: &Workspace,
        context: PollContext<'_>,
    ) -> Result<Sighting, Error> {
        let kind = self.role_kind_or_coding(&agent.role);
        let state = AgentState::new(agent.clone(), kind, LatestTasks::default(), Metadata::new());
        let seen = self.observe_agent(&state, workspace, context).await?.seen;
        Ok(Sighting {
            status: seen.verdict.status,
            reason: seen.verdict.reason,
            attention: seen.verdict.attention,
            generation: seen.generation,
            observed_at: seen.observed_at,
            ..agent.sighting.clone()
        })
    }
}

/// A role is permanent: after a transient error the next poll retries, after any other the project's default applies.
fn is_transient(error: &CoderError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::RateLimited { .. } | ErrorKind::Timeout | ErrorKind::Unreachable | ErrorKind::Cut
    )
}

fn adopted(workspace: &Workspace, info: &ProjectInfo, name: AgentName) -> Agent {
    let values = metadata_values(workspace);
    let text = |key: &str| values.get(key).cloned();
    Agent {
        id: AgentId::fresh(),
        name,
        workspace_id: Some(WorkspaceId(workspace.id)),
        project: info.project.name.clone(),
        role: info.project.default_role.clone(),
        spec: text(AGENT_SPEC).unwrap_or_default(),
        pull_request_url: None,
        directory: None,
        created_by: None,
        created_at: workspace.created_at,
        updated_at: workspace.updated_at,
        deleted_at: None,
        sighting: Sighting {
            status: AgentStatus::Pending,
            previous_status: None,
            reason: "discovered, not polled yet".into(),
            attention: Attention::None,
            generation: 0,
            observed_at: None,
            revision: 0,
        },
    }
}
