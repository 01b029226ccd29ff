//! Creates a workspace: validates the request as Coder does, then queues one build.

use std::sync::Arc;

use axum::extract::{Path, State};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::answer::{Answer, Refusal, Validation, created, object};
use super::auth::SignedIn;
use super::deployment::{check_organization, check_user};
use crate::coder::wire::{ParameterValue, Transition};
use crate::domain::name::AgentName;
use crate::local::build::{self, BuildRequest};
use crate::local::memory::Memory;
use crate::local::record::{TemplateName, Workspace};
use crate::local::template::Template;
use crate::local::{Deployment, parameters, shape};

pub(super) async fn create(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path((organization, user)): Path<(String, String)>,
    body: Bytes,
) -> Answer {
    check_organization(&state, &organization)?;
    check_user(&state, &user)?;
    let (workspace, request) = checked(&state, &object(&body)?)?;
    let id = workspace.id;
    let ((build, shown), saving) = state.change(id, |memory| {
        closing(memory)?;
        if memory.live_named(&workspace.name).is_some() {
            return Err(name_taken(&workspace.name));
        }
        memory.workspaces.insert(id, workspace);
        let build = build::push(memory, id, request).ok_or_else(Refusal::not_found)?;
        let made = memory.workspaces.get(&id).ok_or_else(Refusal::not_found)?;
        Ok::<_, Refusal>((build, shape::workspace(&state, memory, made)))
    })?;
    if let Err(error) = saving.done().await {
        // The client got no promise, and a full disk may refuse this write too.
        state.forget(id).unawaited();
        return Err(error.into());
    }
    build::launch(&state, id, build);
    created(&shown)
}

/// The `rich_parameter_values` of a request.
pub(super) fn given_values(body: &Map<String, Value>) -> Result<Vec<ParameterValue>, Refusal> {
    let rows = body.get("rich_parameter_values").and_then(Value::as_array);
    rows.into_iter().flatten().map(given_value).collect()
}

pub(super) fn closing(memory: &Memory) -> Result<(), Refusal> {
    if memory.is_closing {
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "The server is stopping."));
    }
    Ok(())
}

fn checked(state: &Deployment, body: &Map<String, Value>) -> Result<(Workspace, BuildRequest), Refusal> {
    let given = given_values(body)?;
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default();
    // Coder's rules for workspace names equal ours for agent names.
    if AgentName::parse(name).is_err() {
        return Err(Refusal::invalid(&[Validation::tag("name", "workspace_name", name)]));
    }
    let template = template(state, body)?;
    if state.read(|memory| memory.live_named(name).is_some()) {
        return Err(name_taken(name));
    }
    let preset_id = optional_uuid(body, "template_version_preset_id")?;
    let preset = preset_id.map(|id| preset_values(state, id)).transpose()?.unwrap_or_default();
    parameters::check_rules(&template.parameters, &given)?;
    let values = parameters::resolve(&template.parameters, &[&preset, &given])?;
    Ok((workspace(name, &template), request(&template, preset_id, values)))
}

fn workspace(name: &str, template: &Template) -> Workspace {
    let template = TemplateName {
        id: template.id,
        name: template.name.clone(),
        display_name: template.display_name.clone(),
    };
    Workspace::new(Uuid::new_v4(), name.to_owned(), template)
}

fn request(template: &Template, preset_id: Option<Uuid>, values: Vec<ParameterValue>) -> BuildRequest {
    BuildRequest { preset_id, values, ..BuildRequest::new(Transition::Start, template.version_id) }
}

fn template(state: &Deployment, body: &Map<String, Value>) -> Result<Arc<Template>, Refusal> {
    let both = |tag: &str, template: Uuid, version: Uuid| {
        let rows = [("template_id", template), ("template_version_id", version)];
        Refusal::invalid(&rows.map(|(field, id)| Validation::tag(field, tag, &id.to_string())))
    };
    match (optional_uuid(body, "template_id")?, optional_uuid(body, "template_version_id")?) {
        (None, None) => Err(both("required_without", Uuid::nil(), Uuid::nil())),
        (Some(template), Some(version)) => Err(both("excluded_with", template, version)),
        (Some(id), None) => state.template(id).ok_or_else(|| absent("Template", "template_id", id)),
        (None, Some(id)) => {
            state.version(id).ok_or_else(|| absent("Template version", "template_version_id", id))
        }
    }
}

fn absent(what: &str, field: &str, id: Uuid) -> Refusal {
    let detail = format!("{} not found", what.to_lowercase());
    Refusal::new(StatusCode::BAD_REQUEST, &format!("{what} \"{id}\" doesn't exist."))
        .validations(&[Validation::new(field, &detail)])
}

/// Presets of earlier versions stay valid, and an unknown id is an internal error, as on a real server.
fn preset_values(state: &Deployment, id: Uuid) -> Result<Vec<ParameterValue>, Refusal> {
    state.catalog.preset_values(id).ok_or_else(|| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Refusal::new(status, "failed to fetch preset parameter values")
            .detail("failed to get preset parameters: sql: no rows in result set")
    })
}

fn name_taken(name: &str) -> Refusal {
    let row = Validation::new("name", "This value is already in use and should be unique.");
    Refusal::new(StatusCode::CONFLICT, &format!("Workspace \"{name}\" already exists.")).validations(&[row])
}

fn given_value(row: &Value) -> Result<ParameterValue, Refusal> {
    let name = row["name"].as_str().unwrap_or_default().to_owned();
    let kind = match &row["value"] {
        Value::String(value) => return Ok(ParameterValue { name, value: value.clone() }),
        Value::Null => return Ok(ParameterValue { name, value: String::new() }),
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Err(Refusal::bad_json(&format!(
        "json: cannot unmarshal {kind} into Go struct field \
         WorkspaceBuildParameter.rich_parameter_values.value of type string"
    )))
}

fn optional_uuid(body: &Map<String, Value>, field: &str) -> Result<Option<Uuid>, Refusal> {
    let Some(text) = body.get(field).and_then(Value::as_str) else { return Ok(None) };
    let bad = |_| Refusal::bad_json(&format!("invalid UUID length: {}", text.len()));
    Uuid::try_parse(text).map(Some).map_err(bad)
}
