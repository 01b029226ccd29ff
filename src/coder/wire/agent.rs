//! Resources of a build, their workspace agents, and what those agents report.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::app::App;
use super::lenient::{null_as_default, time};

/// A Terraform resource of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    pub id: Uuid,
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<ResourceMetadata>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<WorkspaceAgent>,
}

/// A value that the template attached to a resource. Sensitive values arrive in clear: do not show them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceMetadata {
    pub key: String,
    #[serde(default)]
    pub value: String,
    #[serde(default)]
    pub sensitive: bool,
}

/// The process that connects a workspace to Coder. Every start makes a new one with a new id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceAgent {
    pub id: Uuid,
    pub name: String,
    pub status: String,
    #[serde(default)]
    pub lifecycle_state: String,
    pub created_at: DateTime<Utc>,
    #[serde(default, deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub first_connected_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub last_connected_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub disconnected_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<DateTime<Utc>>,
    #[serde(default)]
    pub directory: String,
    #[serde(default)]
    pub operating_system: String,
    #[serde(default)]
    pub architecture: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub health: AgentHealth,
    #[serde(default, deserialize_with = "null_as_default")]
    pub apps: Vec<App>,
    /// Filled only by a list that asked for the keys.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub metadata: Vec<AgentMetadata>,
}

/// Whether Coder considers the agent healthy, and why not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHealth {
    #[serde(default)]
    pub healthy: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One metadata key of an agent, with the last output of its script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMetadata {
    pub result: MetadataResult,
    pub description: MetadataDescription,
}

/// The newest value of a key; up to six seconds late, cut at 2,048 bytes, and kept after a disconnect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataResult {
    /// `None` until the first value has arrived.
    #[serde(default, deserialize_with = "time")]
    pub collected_at: Option<DateTime<Utc>>,
    #[serde(default)]
    pub age: i64,
    #[serde(default)]
    pub value: String,
    #[serde(default)]
    pub error: String,
}

/// The key of a value, and its collection interval in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataDescription {
    #[serde(default)]
    pub display_name: String,
    pub key: String,
    #[serde(default)]
    pub interval: i64,
    #[serde(default)]
    pub timeout: i64,
}
