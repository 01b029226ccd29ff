//! Apps of an agent, and the statuses that agents report about their work.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::lenient::{at_most, null_as_default};

/// In bytes. Coder itself keeps messages of 160 and addresses of any length; every status is journaled permanently.
const LONGEST_MESSAGE: usize = 4_096;
const LONGEST_ADDRESS: usize = 2_048;

/// A port of the workspace that Coder proxies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    pub id: Uuid,
    pub slug: String,
    #[serde(default)]
    pub url: String,
    #[serde(default)]
    pub display_name: String,
    #[serde(default)]
    pub subdomain: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subdomain_name: String,
    #[serde(default)]
    pub health: String,
    /// Newest first and unbounded, of the current build only.
    #[serde(default, deserialize_with = "null_as_default")]
    pub statuses: Vec<AppStatus>,
}

/// A report of an agent about its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppStatus {
    pub id: Uuid,
    pub created_at: DateTime<Utc>,
    pub workspace_id: Uuid,
    pub agent_id: Uuid,
    pub app_id: Uuid,
    pub state: String,
    #[serde(default, deserialize_with = "at_most::<LONGEST_MESSAGE, _>")]
    pub message: String,
    #[serde(default, deserialize_with = "at_most::<LONGEST_ADDRESS, _>")]
    pub uri: String,
    #[serde(default)]
    pub icon: String,
    #[serde(default)]
    pub needs_user_attention: bool,
}

/// The body of a status report. Coder refuses messages over 160 bytes and strips newlines and markup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppStatusReport {
    pub app_slug: String,
    pub state: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub uri: String,
}
