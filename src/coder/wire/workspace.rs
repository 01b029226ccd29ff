//! A workspace, and the body of its creation.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::app::AppStatus;
use super::build::{Build, ParameterValue};
use super::lenient::{null_as_default, time};

/// A workspace with its newest build. It never contains parameter values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    pub id: Uuid,
    pub name: String,
    pub owner_id: Uuid,
    pub owner_name: String,
    pub organization_id: Uuid,
    pub template_id: Uuid,
    #[serde(default)]
    pub template_name: String,
    #[serde(default)]
    pub template_display_name: String,
    pub template_active_version_id: Uuid,
    pub created_at: DateTime<Utc>,
    /// Unaffected by builds.
    pub updated_at: DateTime<Utc>,
    #[serde(default, deserialize_with = "time")]
    pub last_used_at: Option<DateTime<Utc>>,
    #[serde(default)]
    pub outdated: bool,
    #[serde(default, deserialize_with = "time")]
    pub dormant_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub health: WorkspaceHealth,
    /// Builds are numbered from 1; a workspace that never had one has number 0.
    #[serde(default, deserialize_with = "null_as_default")]
    pub latest_build: Build,
    /// Outlives builds: valid only if its agent is the current one.
    #[serde(default)]
    pub latest_app_status: Option<AppStatus>,
}

impl Workspace {
    pub fn has_build(&self) -> bool {
        self.latest_build.build_number > 0
    }
}

/// Coder's own view of the health of the workspace's agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceHealth {
    #[serde(default)]
    pub healthy: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub failing_agents: Vec<Uuid>,
}

/// The body of a create request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateWorkspace {
    pub name: String,
    pub template_version_id: Uuid,
    #[serde(default, deserialize_with = "null_as_default")]
    pub rich_parameter_values: Vec<ParameterValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version_preset_id: Option<Uuid>,
}
