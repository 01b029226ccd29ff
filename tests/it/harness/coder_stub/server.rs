//! Endpoints about the deployment and its templates.

use super::answers::{Answer, Reply, not_found};
use super::routes::Call;
use super::shapes::time;
use super::state::{State, Template, Version};
use super::template_shapes;
use chrono::Utc;
use serde_json::{Value, json};

pub(super) fn buildinfo(state: &mut State, _: &Call) -> Answer {
    Ok(Reply::json(
        200,
        json!({
            "external_url": "https://github.com/coder/coder",
            "version": "v2.36.0",
            "dashboard_url": state.url,
            "telemetry": false,
            "workspace_proxy": false,
            "agent_api_version": "1.0",
            "provisioner_api_version": "1.18",
            "upgrade_message": "",
            "deployment_id": state.deployment_id,
            "webpush_public_key": "",
        }),
    ))
}

pub(super) fn organizations(state: &mut State, _: &Call) -> Answer {
    let now = time(Utc::now());
    Ok(Reply::json(
        200,
        json!([{
            "id": state.organization_id,
            "name": "coder",
            "display_name": "Coder",
            "icon": "",
            "description": "Builtin default organization.",
            "created_at": now,
            "updated_at": now,
            "is_default": true,
            "default_org_member_roles": ["organization-workspace-access"],
        }]),
    ))
}

pub(super) fn templates(state: &mut State, call: &Call) -> Answer {
    let exact = call.query("q").and_then(|q| q.strip_prefix("exact_name:"));
    let wanted = |template: &&Template| exact.is_none_or(|name| template.name == name);
    let rows: Vec<Value> = state
        .templates
        .iter()
        .filter(wanted)
        .map(|template| template_shapes::template(state, template))
        .collect();
    Ok(Reply::json(200, json!(rows)))
}

pub(super) fn template_by_name(state: &mut State, call: &Call) -> Answer {
    check_organization(state, call.arg(0))?;
    let wanted = call.arg(1);
    let template = state.templates.iter().find(|template| template.name == wanted).ok_or_else(not_found)?;
    Ok(Reply::json(200, template_shapes::template(state, template)))
}

pub(super) fn rich_parameters(state: &mut State, call: &Call) -> Answer {
    let (_, version) = find_version(state, call)?;
    Ok(Reply::json(200, version.params.iter().map(template_shapes::param).collect()))
}

pub(super) fn presets(state: &mut State, call: &Call) -> Answer {
    let (_, version) = find_version(state, call)?;
    Ok(Reply::json(200, template_shapes::presets(&version.presets)))
}

/// Accepts the one organization by id or name.
pub(super) fn check_organization(state: &State, wanted: &str) -> Result<(), Reply> {
    let known = wanted == "coder" || wanted == state.organization_id.to_string();
    if known { Ok(()) } else { Err(not_found()) }
}

fn find_version<'a>(state: &'a State, call: &Call) -> Result<(&'a Template, &'a Version), Reply> {
    state.version(call.uuid(0)?).ok_or_else(not_found)
}
