//! The JSON of a workspace with its newest build.

use serde_json::{Value, json};

use super::{build, time};
use crate::local::Deployment;
use crate::local::deployment_info::{ORGANIZATION, USERNAME};
use crate::local::memory::Memory;
use crate::local::record::Workspace;

pub(crate) fn workspace(deployment: &Deployment, memory: &Memory, workspace: &Workspace) -> Value {
    let info = &deployment.info;
    let latest = workspace.latest();
    let used = latest.map(|latest| latest.version_id).unwrap_or_default();
    let active = deployment.template(workspace.template.id).map_or(used, |template| template.version_id);
    let failing: Vec<_> =
        workspace.agent().into_iter().filter(|agent| agent.unhealthy_reason().is_some()).collect();
    json!({
        "id": workspace.id,
        "created_at": time(workspace.created_at),
        "updated_at": time(workspace.created_at),
        "owner_id": info.user_id,
        "owner_name": USERNAME,
        "owner_avatar_url": "",
        "organization_id": info.organization_id,
        "organization_name": ORGANIZATION,
        "template_id": workspace.template.id,
        "template_name": workspace.template.name,
        "template_display_name": workspace.template.display_name,
        "template_icon": "",
        "template_allow_user_cancel_workspace_jobs": true,
        "template_active_version_id": active,
        "template_require_active_version": false,
        "template_use_classic_parameter_flow": false,
        "latest_build": latest.map(|latest| build(deployment, memory, workspace, latest)),
        "latest_app_status": workspace.app_status,
        "outdated": deployment.is_outdated(workspace),
        "name": workspace.name,
        "last_used_at": time(workspace.created_at),
        "deleting_at": null,
        "dormant_at": null,
        "health": {
            "healthy": failing.is_empty(),
            "failing_agents": failing.iter().map(|agent| agent.id).collect::<Vec<_>>(),
        },
        "automatic_updates": "never",
        "allow_renames": false,
        "favorite": false,
        "next_start_at": null,
        "is_prebuild": false,
        "task_id": null,
    })
}
