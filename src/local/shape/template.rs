//! The JSON of templates, their parameters and presets.

use serde_json::{Value, json};

use super::time;
use crate::local::deployment_info::{DeploymentInfo, ORGANIZATION, USERNAME};
use crate::local::template::{Parameter, Preset, Rule, Template, WEB_ADDRESS};

pub(crate) fn template(info: &DeploymentInfo, template: &Template) -> Value {
    json!({
        "id": template.id,
        "created_at": time(template.created_at),
        "updated_at": time(template.created_at),
        "organization_id": info.organization_id,
        "organization_name": ORGANIZATION,
        "organization_display_name": "Coder",
        "organization_icon": "",
        "name": template.name,
        "display_name": template.display_name,
        "provisioner": "terraform",
        "active_version_id": template.version_id,
        "active_user_count": 0,
        "description": template.description,
        "deprecated": false,
        "deprecation_message": "",
        "deleted": false,
        "icon": "",
        "default_ttl_ms": 0,
        "activity_bump_ms": 3_600_000,
        "time_til_autostop_notify_ms": 0,
        "created_by_id": info.user_id,
        "created_by_name": USERNAME,
        "allow_user_autostart": true,
        "allow_user_autostop": true,
        "allow_user_cancel_workspace_jobs": true,
        "failure_ttl_ms": 0,
        "time_til_dormant_ms": 0,
        "time_til_dormant_autodelete_ms": 0,
        "require_active_version": false,
        "max_port_share_level": "owner",
        "cors_behavior": "simple",
        "use_classic_parameter_flow": false,
        "agents_allowed": true,
        "disable_module_cache": false,
    })
}

pub(crate) fn parameter(parameter: &Parameter) -> Value {
    let mut shape = plain_parameter(parameter);
    match &parameter.rule {
        Rule::Any => {}
        Rule::OneOf(options) => {
            shape["form_type"] = json!("dropdown");
            shape["options"] = options.iter().map(|value| option(value)).collect();
        }
        Rule::WebAddress => {
            shape["validation_regex"] = json!(WEB_ADDRESS);
            shape["validation_error"] = json!(format!("{} must match {WEB_ADDRESS}", parameter.name));
        }
    }
    shape
}

fn option(value: &str) -> Value {
    json!({ "name": value, "description": "", "value": value, "icon": "" })
}

fn plain_parameter(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "display_name": parameter.name,
        "description": parameter.description,
        "description_plaintext": parameter.description,
        "type": "string",
        "form_type": "input",
        "mutable": parameter.is_mutable,
        "default_value": parameter.default.as_deref().unwrap_or_default(),
        "icon": "",
        "options": [],
        "required": parameter.default.is_none(),
        "ephemeral": false,
    })
}

/// A list with capitalised keys, or `null` if there are none.
pub(crate) fn presets(presets: &[Preset]) -> Value {
    if presets.is_empty() {
        return Value::Null;
    }
    presets.iter().map(preset).collect()
}

fn preset(preset: &Preset) -> Value {
    let parameters: Vec<Value> =
        preset.values.iter().map(|value| json!({ "Name": value.name, "Value": value.value })).collect();
    json!({
        "ID": preset.id,
        "Name": preset.name,
        "Parameters": parameters,
        "Default": preset.is_default,
        "DesiredPrebuildInstances": 0,
        "Description": preset.description,
        "Icon": "",
    })
}
