//! The deployment itself: its version, its users and its organizations.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::lenient::null_as_default;

/// Which server answers; readable without a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    pub version: String,
    #[serde(default)]
    pub deployment_id: String,
    #[serde(default)]
    pub agent_api_version: String,
}

/// The user a session token belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub id: Uuid,
    pub username: String,
    #[serde(default)]
    pub name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub organization_ids: Vec<Uuid>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub roles: Vec<UserRole>,
}

/// A site-wide role; `owner` may do everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRole {
    pub name: String,
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
