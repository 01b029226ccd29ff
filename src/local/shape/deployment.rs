//! The JSON of the deployment and its organization.

use serde_json::{Value, json};

use super::time;
use crate::local::deployment_info::{DeploymentInfo, ORGANIZATION, VERSION};

pub(crate) fn build_info(info: &DeploymentInfo) -> Value {
    json!({
        "external_url": env!("CARGO_PKG_NAME"),
        "version": VERSION,
        "dashboard_url": info.url.as_str().trim_end_matches('/'),
        "telemetry": false,
        "workspace_proxy": false,
        "agent_api_version": "1.0",
        "provisioner_api_version": "1.18",
        "upgrade_message": "",
        "deployment_id": info.deployment_id,
        "webpush_public_key": "",
    })
}

pub(crate) fn organization(info: &DeploymentInfo) -> Value {
    json!({
        "id": info.organization_id,
        "name": ORGANIZATION,
        "display_name": "Coder",
        "icon": "",
        "description": "The only organization of the embedded Coder.",
        "created_at": time(info.created_at),
        "updated_at": time(info.created_at),
        "is_default": true,
        "default_org_member_roles": ["organization-workspace-access"],
    })
}
