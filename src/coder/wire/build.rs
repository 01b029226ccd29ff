//! Builds: one run of a template that starts, stops or deletes a workspace.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::agent::Resource;
use super::lenient::{null_as_default, time};

/// One build of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    pub id: Uuid,
    pub build_number: i64,
    pub transition: String,
    pub status: String,
    #[serde(default)]
    pub reason: String,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub workspace_id: Uuid,
    #[serde(default)]
    pub workspace_name: String,
    pub template_version_id: Uuid,
    #[serde(default)]
    pub template_version_preset_id: Option<Uuid>,
    #[serde(default)]
    pub initiator_name: String,
    pub job: Job,
    /// Empty until the build has succeeded.
    #[serde(default, deserialize_with = "null_as_default")]
    pub resources: Vec<Resource>,
}

/// The provisioner's work for a build or for a template import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: Uuid,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(default)]
    pub queue_position: i64,
    #[serde(default)]
    pub queue_size: i64,
    #[serde(default, deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "time", skip_serializing_if = "Option::is_none")]
    pub canceled_at: Option<DateTime<Utc>>,
}

/// One line of a build's log; lines of level `error` hold the reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildLog {
    pub id: i64,
    pub created_at: DateTime<Utc>,
    #[serde(default)]
    pub log_source: String,
    #[serde(default)]
    pub log_level: String,
    #[serde(default)]
    pub stage: String,
    #[serde(default)]
    pub output: String,
}

/// The value of one rich parameter; always a string, whatever the parameter's type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterValue {
    pub name: String,
    pub value: String,
}

/// The requested transition. In responses it stays a string: see the module of all wire types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transition {
    Start,
    Stop,
    Delete,
}

/// The body of a request for a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateBuild {
    pub transition: Transition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_success: Option<FollowUp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version_id: Option<Uuid>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub rich_parameter_values: Vec<ParameterValue>,
    /// Forgets the workspace without destroying its resources; only with `Delete`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub orphan: bool,
}

/// The build that Coder queues once the requested one has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowUp {
    pub transition: Transition,
}

impl CreateBuild {
    pub fn start() -> Self {
        Self::of(Transition::Start)
    }

    pub fn stop() -> Self {
        Self::of(Transition::Stop)
    }

    /// One atomic call: Coder queues the start itself. Older servers ignore the follow-up and only stop, so the
    /// caller must check for the next build number.
    pub fn restart() -> Self {
        Self { on_success: Some(FollowUp { transition: Transition::Start }), ..Self::stop() }
    }

    pub fn delete() -> Self {
        Self::of(Transition::Delete)
    }

    fn of(transition: Transition) -> Self {
        Self {
            transition,
            on_success: None,
            template_version_id: None,
            rich_parameter_values: Vec::new(),
            orphan: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CreateBuild;

    #[test]
    fn build_bodies_hold_nothing_but_what_was_asked() {
        let written =
            [CreateBuild::start(), CreateBuild::stop(), CreateBuild::restart(), CreateBuild::delete()]
                .map(|body| serde_json::to_string(&body).unwrap());
        assert_eq!(
            written,
            [
                r#"{"transition":"start"}"#,
                r#"{"transition":"stop"}"#,
                r#"{"transition":"stop","on_success":{"transition":"start"}}"#,
                r#"{"transition":"delete"}"#,
            ]
        );
    }
}
