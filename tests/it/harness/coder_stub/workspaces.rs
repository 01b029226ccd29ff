//! Endpoints that create and show one workspace.

use super::answers::{
    Answer, Reply, Validation, bad_json, json_object, name_taken, not_found, validation_failed,
};
use super::parameters;
use super::routes::Call;
use super::script::BuildRequest;
use super::server::check_organization;
use super::shapes;
use super::spec::Pace;
use super::state::{State, Template, Transition, User, Version, Workspace};
use chrono::Utc;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use uuid::Uuid;

/// The parameter whose value the agent is started with.
const PROMPT: &str = "AI Prompt";

/// A workspace to make, every part already checked.
pub(super) struct NewWorkspace {
    pub(super) name: String,
    pub(super) owner: User,
    pub(super) template_id: Uuid,
    pub(super) version_id: Uuid,
    pub(super) preset_id: Option<Uuid>,
    pub(super) values: Vec<(String, String)>,
}

pub(super) fn create(state: &mut State, call: &Call) -> Answer {
    check_organization(state, call.arg(0))?;
    create_for(state, call.arg(1), &call.body)
}

pub(super) fn get(state: &mut State, call: &Call) -> Answer {
    let id = call.uuid(0)?;
    pass_time(state, id);
    let workspace = state.workspace(id).ok_or_else(not_found)?;
    if workspace.deleted && !include_deleted(call) {
        let message = format!(
            "Workspace \"{id}\" was deleted, you can view this workspace by specifying \
             '?include_deleted=true' and trying again."
        );
        return Err(Reply::error(410, &message));
    }
    Ok(Reply::json(200, shapes::workspace(state, workspace)))
}

pub(super) fn get_by_name(state: &mut State, call: &Call) -> Answer {
    let owner = state.user(call.arg(0)).ok_or_else(not_found)?.id;
    let name = call.arg(1);
    let live = state.workspace_named(owner, name);
    let gone = || state.workspaces.iter().rev().find(|workspace| workspace.is(owner, name));
    let found = live.or_else(|| include_deleted(call).then(gone).flatten()).ok_or_else(not_found)?.id;
    pass_time(state, found);
    let workspace = state.workspace(found).ok_or_else(not_found)?;
    if workspace.deleted && !include_deleted(call) {
        return Err(not_found());
    }
    Ok(Reply::json(200, shapes::workspace(state, workspace)))
}

/// A client is about to look at a workspace, which lets time pass when the pace says so.
fn pass_time(state: &mut State, id: Uuid) {
    let pace = state.pace;
    if let Some(workspace) = state.workspace_mut(id)
        && pace == Pace::PerRead
    {
        workspace.advance();
    }
}

/// Lets a build that was just answered be over, when the pace says so.
pub(super) fn settle_if_instant(state: &mut State, id: Uuid) {
    let pace = state.pace;
    if let Some(workspace) = state.workspace_mut(id)
        && pace == Pace::Instant
    {
        workspace.settle();
    }
}

/// Makes a workspace with its first build queued.
pub(super) fn add(state: &mut State, new: NewWorkspace) -> Uuid {
    let behaviour = state.template(new.template_id).expect("the template was looked up").behaviour;
    let mut workspace = Workspace {
        id: Uuid::new_v4(),
        name: new.name,
        owner: new.owner,
        template_id: new.template_id,
        behaviour,
        created_at: Utc::now(),
        deleted: false,
        builds: Vec::new(),
        script: VecDeque::new(),
        app_status: None,
        metadata: Vec::new(),
        resource_metadata: Vec::new(),
        agent_api: super::agent_api::AgentApi::new(),
    };
    workspace.push_build(BuildRequest {
        transition: Transition::Start,
        version_id: new.version_id,
        preset_id: new.preset_id,
        values: new.values,
        then_start: false,
    });
    let id = workspace.id;
    state.workspaces.push(workspace);
    id
}

fn create_for(state: &mut State, user: &str, body: &[u8]) -> Answer {
    let owner = state.user(user).ok_or_else(not_found)?.clone();
    let body = json_object(body)?;
    let new = check(state, owner, &body)?;
    let prompt = new.values.iter().find(|(name, _)| name == PROMPT).map(|(_, value)| value.clone());
    let id = add(state, new);
    let script = state.agent_script;
    if let (Some(prompt), Some(workspace)) = (prompt, state.workspace_mut(id)) {
        workspace.agent_api.script = script;
        workspace.agent_api.start_with(&prompt);
    }
    let reply = Reply::json(201, shapes::workspace(state, state.workspace(id).ok_or_else(not_found)?));
    settle_if_instant(state, id);
    Ok(reply)
}

fn check(state: &State, owner: User, body: &Map<String, Value>) -> Result<NewWorkspace, Reply> {
    let given = parameters::given(body)?;
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default();
    if !is_workspace_name(name) {
        return Err(validation_failed(&[Validation::tag("name", "workspace_name", name)]));
    }
    let (template, version) = find_version(state, body)?;
    if state.workspace_named(owner.id, name).is_some() {
        return Err(name_taken(name));
    }
    let preset_id = optional_uuid(body, "template_version_preset_id")?;
    let preset = preset_id.map(|id| preset_values(state, id)).transpose()?.unwrap_or_default();
    let values = parameters::resolve(&version.params, &[&preset, &given])?;
    Ok(NewWorkspace {
        name: name.to_owned(),
        owner,
        template_id: template.id,
        version_id: version.id,
        preset_id,
        values,
    })
}

fn find_version<'a>(
    state: &'a State,
    body: &Map<String, Value>,
) -> Result<(&'a Template, &'a Version), Reply> {
    let nil = Uuid::nil().to_string();
    let both = |tag: &str, template: &str, version: &str| {
        let rows = [
            Validation::tag("template_id", tag, template),
            Validation::tag("template_version_id", tag, version),
        ];
        validation_failed(&rows)
    };
    match (optional_uuid(body, "template_id")?, optional_uuid(body, "template_version_id")?) {
        (None, None) => Err(both("required_without", &nil, &nil)),
        (Some(template), Some(version)) => {
            Err(both("excluded_with", &template.to_string(), &version.to_string()))
        }
        (Some(id), None) => {
            let template = state.template(id).ok_or_else(|| no_template("Template", "template_id", id))?;
            Ok((template, template.active()))
        }
        (None, Some(id)) => {
            state.version(id).ok_or_else(|| no_template("Template version", "template_version_id", id))
        }
    }
}

fn no_template(what: &str, field: &str, id: Uuid) -> Reply {
    let detail = format!("{} not found", what.to_lowercase());
    Reply::error(400, &format!("{what} \"{id}\" doesn't exist."))
        .validations(&[Validation::new(field, &detail)])
}

/// A preset of any version: an old one's id is still accepted.
fn preset_values(state: &State, id: Uuid) -> Result<Vec<(String, String)>, Reply> {
    let mut presets = state.templates.iter().flat_map(|template| &template.versions).flat_map(|v| &v.presets);
    let found = presets.find(|preset| preset.id == id).map(|preset| preset.values.clone());
    found.ok_or_else(|| {
        Reply::error(500, "failed to fetch preset parameter values")
            .detail("failed to get preset parameters: sql: no rows in result set")
    })
}

fn optional_uuid(body: &Map<String, Value>, field: &str) -> Result<Option<Uuid>, Reply> {
    let Some(text) = body.get(field).and_then(Value::as_str) else { return Ok(None) };
    let parsed = Uuid::parse_str(text);
    parsed.map(Some).map_err(|_| bad_json(&format!("invalid UUID length: {}", text.len())))
}

fn is_workspace_name(name: &str) -> bool {
    let parts_are_words =
        name.split('-').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    (1..=32).contains(&name.len()) && parts_are_words && !matches!(name, "new" | "create")
}

fn include_deleted(call: &Call) -> bool {
    call.query("include_deleted") == Some("true")
}
