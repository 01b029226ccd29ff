//! Roles and projects as callers see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::count;
use crate::app::discovery::{ProjectInfo, RoleInfo, RoleList};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentRoles {
    pub roles: Vec<AgentRole>,
    pub project_name: Option<String>,
    pub total_count: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentRole {
    pub id: String,
    pub name: String,
    pub display_name: String,
    pub description: String,
    /// coding, review, planning, operator or manager
    pub kind: String,
    /// True for the role used if none is given.
    pub default: bool,
    pub project_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentProjects {
    pub projects: Vec<AgentProject>,
    pub total_count: i64,
    /// Project files that are not valid, each with a remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct AgentProject {
    pub id: String,
    pub name: String,
    pub display_name: String,
    pub description: String,
    pub template_id: String,
    pub template_name: String,
    pub default_role: String,
}

impl From<&RoleList> for AgentRoles {
    fn from(found: &RoleList) -> Self {
        Self {
            roles: found.roles.iter().map(|role| AgentRole::of(role, found.project.as_deref())).collect(),
            project_name: found.project.clone(),
            total_count: count(found.roles.len() as u64),
        }
    }
}

impl AgentRole {
    fn of(info: &RoleInfo, project: Option<&str>) -> Self {
        Self {
            id: info.role.id.clone(),
            name: info.role.name.clone(),
            display_name: info.role.display_name.clone(),
            description: info.role.description.clone(),
            kind: info.role.kind.word().into(),
            default: info.is_default,
            project_name: project.map(str::to_owned),
        }
    }
}

impl AgentProjects {
    pub fn of(found: &[ProjectInfo], problems: Vec<String>) -> Self {
        Self {
            projects: found.iter().map(AgentProject::from).collect(),
            total_count: count(found.len() as u64),
            problems,
        }
    }
}

impl From<&ProjectInfo> for AgentProject {
    fn from(info: &ProjectInfo) -> Self {
        let project = &info.project;
        Self {
            id: project.name.clone(),
            name: project.name.clone(),
            display_name: project.display_name.clone(),
            description: project.description.clone(),
            template_id: info.template_id.to_string(),
            template_name: info.template_name.clone(),
            default_role: project.default_role.clone(),
        }
    }
}
