//! The JSON of templates, their parameters and presets.

use super::shapes::time;
use super::spec::ParamSpec;
use super::state::{Preset, State, Template};
use serde_json::{Value, json};

pub(super) fn template(state: &State, template: &Template) -> Value {
    json!({
        "id": template.id,
        "created_at": time(template.created_at),
        "updated_at": time(template.created_at),
        "organization_id": state.organization_id,
        "organization_name": "coder",
        "organization_display_name": "Coder",
        "organization_icon": "",
        "name": template.name,
        "display_name": template.display_name,
        "provisioner": "terraform",
        "active_version_id": template.active().id,
        "active_user_count": 0,
        "description": "",
        "deprecated": false,
        "deprecation_message": "",
        "deleted": false,
        "icon": "",
        "default_ttl_ms": 0,
        "activity_bump_ms": 3_600_000,
        "time_til_autostop_notify_ms": 0,
        "created_by_id": state.me.id,
        "created_by_name": state.me.username,
        "allow_user_autostart": true,
        "allow_user_autostop": true,
        "allow_user_cancel_workspace_jobs": false,
        "failure_ttl_ms": 0,
        "time_til_dormant_ms": 0,
        "time_til_dormant_autodelete_ms": 0,
        "require_active_version": false,
        "max_port_share_level": "public",
        "cors_behavior": "simple",
        "use_classic_parameter_flow": false,
        "agents_allowed": true,
        "disable_module_cache": false,
    })
}

pub(super) fn param(param: &ParamSpec) -> Value {
    let options: Vec<Value> = param
        .options
        .iter()
        .map(|value| json!({ "name": value, "description": "", "value": value, "icon": "" }))
        .collect();
    let mut shape = json!({
        "name": param.name,
        "display_name": param.name,
        "description": "",
        "description_plaintext": "",
        "type": param.kind(),
        "form_type": if options.is_empty() { "input" } else { "radio" },
        "mutable": param.mutable,
        "default_value": param.default.as_deref().unwrap_or_default(),
        "icon": "",
        "options": options,
        "required": param.default.is_none(),
        "ephemeral": false,
    });
    if let Some((min, max)) = param.range {
        shape["validation_min"] = json!(min);
        shape["validation_max"] = json!(max);
    }
    if let Some(pattern) = &param.pattern {
        shape["validation_regex"] = json!(pattern.regex);
        shape["validation_error"] = json!(pattern.error);
    }
    shape
}

/// The presets of a version: a list with capitalised keys, or a plain `null` when there are none.
pub(super) fn presets(presets: &[Preset]) -> Value {
    if presets.is_empty() {
        return Value::Null;
    }
    presets.iter().enumerate().map(|(place, preset)| preset_row(place, preset)).collect()
}

fn preset_row(place: usize, preset: &Preset) -> Value {
    let parameters: Vec<Value> =
        preset.values.iter().map(|(name, value)| json!({ "Name": name, "Value": value })).collect();
    json!({
        "ID": preset.id,
        "Name": preset.name,
        "Parameters": parameters,
        "Default": place == 0,
        "DesiredPrebuildInstances": 0,
        "Description": "",
        "Icon": "",
    })
}
