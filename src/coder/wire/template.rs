//! Templates, and the parameters and presets of their versions.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::lenient::null_as_default;

/// The blueprint of workspaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    pub id: Uuid,
    pub organization_id: Uuid,
    pub name: String,
    #[serde(default)]
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    pub active_version_id: Uuid,
    #[serde(default)]
    pub deprecated: bool,
    #[serde(default)]
    pub deprecation_message: String,
    /// Without it only the template's owner may cancel builds.
    #[serde(default)]
    pub allow_user_cancel_workspace_jobs: bool,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// A parameter that a template version declares. Coder silently accepts unknown names, so callers check here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RichParameter {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub mutable: bool,
    #[serde(default)]
    pub default_value: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub options: Vec<ParameterOption>,
    #[serde(default)]
    pub required: bool,
    #[serde(default)]
    pub ephemeral: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_regex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_min: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_max: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_error: Option<String>,
}

/// One value that a parameter may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterOption {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub value: String,
}

/// A named set of parameter values. Its id changes with every template version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preset {
    #[serde(rename = "ID")]
    pub id: Uuid,
    #[serde(rename = "Name")]
    pub name: String,
    #[serde(rename = "Description", default)]
    pub description: String,
    #[serde(rename = "Default", default)]
    pub default: bool,
    #[serde(rename = "Parameters", default, deserialize_with = "null_as_default")]
    pub parameters: Vec<PresetParameter>,
}

/// One value of a preset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresetParameter {
    #[serde(rename = "Name")]
    pub name: String,
    #[serde(rename = "Value")]
    pub value: String,
}
