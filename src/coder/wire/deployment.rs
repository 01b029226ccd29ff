//! The deployment itself: its version and its organizations.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of the server; readable without a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    pub version: String,
    #[serde(default)]
    pub deployment_id: String,
    #[serde(default)]
    pub agent_api_version: String,
}

/// The unit that owns templates and workspaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    pub id: Uuid,
    pub name: String,
    #[serde(default)]
    pub display_name: String,
    #[serde(default)]
    pub is_default: bool,
}
