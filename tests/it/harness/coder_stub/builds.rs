//! Endpoints that start, list and cancel builds.

use super::answers::{Answer, Reply, Validation, build_active, json_object, not_found, validation_failed};
use super::parameters;
use super::routes::Call;
use super::script::BuildRequest;
use super::shapes;
use super::state::{Build, State, Transition, Workspace};
use super::workspaces::settle_if_instant;
use serde_json::{Map, Value};

pub(super) fn list(state: &mut State, call: &Call) -> Answer {
    let workspace = state.workspace(call.uuid(0)?).ok_or_else(not_found)?;
    let number = |name: &str| call.query(name).and_then(|text| text.parse::<usize>().ok());
    let (offset, limit) = (
        number("offset").unwrap_or_default(),
        number("limit").filter(|limit| *limit > 0).unwrap_or(usize::MAX),
    );
    let page = workspace.builds.iter().rev().skip(offset).take(limit);
    Ok(Reply::json(200, page.map(|build| shapes::build(state, workspace, build)).collect()))
}

pub(super) fn create(state: &mut State, call: &Call) -> Answer {
    let id = call.uuid(0)?;
    let body = json_object(&call.body)?;
    let request = check(state, state.workspace(id).ok_or_else(not_found)?, &body)?;
    state.workspace_mut(id).ok_or_else(not_found)?.push_build(request);
    let workspace = state.workspace(id).ok_or_else(not_found)?;
    let reply = Reply::json(201, shapes::build(state, workspace, workspace.latest()));
    settle_if_instant(state, id);
    Ok(reply)
}

pub(super) fn parameters(state: &mut State, call: &Call) -> Answer {
    let (_, build) = find(state, call)?;
    Ok(Reply::json(200, shapes::name_values(&build.values)))
}

pub(super) fn logs(state: &mut State, call: &Call) -> Answer {
    let (_, build) = find(state, call)?;
    let after = call.query("after").and_then(|text| text.parse::<usize>().ok()).unwrap_or_default();
    Ok(Reply::json(200, build.logs.iter().filter(|line| line.id > after).map(shapes::log_line).collect()))
}

pub(super) fn cancel(state: &mut State, call: &Call) -> Answer {
    let (workspace, build) = find(state, call)?;
    if !build.is_active() {
        return Err(Reply::error(400, "Job has already completed!"));
    }
    if build.canceled_at.is_some() {
        return Err(Reply::error(400, "Job has already been marked as canceled!"));
    }
    if call.query("expect_status").is_some_and(|expected| expected != build.job_status) {
        return Err(Reply::error(412, "Job is not in the expected state."));
    }
    let id = workspace.id;
    state.workspace_mut(id).ok_or_else(not_found)?.cancel();
    settle_if_instant(state, id);
    Ok(Reply::error(200, "Job has been marked as canceled..."))
}

fn find<'a>(state: &'a State, call: &Call) -> Result<(&'a Workspace, &'a Build), Reply> {
    state.build(call.uuid(0)?).ok_or_else(not_found)
}

fn check(state: &State, workspace: &Workspace, body: &Map<String, Value>) -> Result<BuildRequest, Reply> {
    let transition = transition(body)?;
    check_options(transition, body)?;
    if workspace.deleted && transition != Transition::Delete {
        return Err(Reply::error(409, &format!("Cannot {} a deleted workspace!", transition.as_str()))
            .detail("This workspace has been deleted and cannot be modified."));
    }
    let latest = workspace.latest();
    if latest.is_active() {
        return Err(build_active());
    }
    let (_, version) = state.version(latest.version_id).ok_or_else(not_found)?;
    let given = parameters::given(body)?;
    parameters::check_fixed(&version.params, &latest.values, &given)?;
    Ok(BuildRequest {
        transition,
        version_id: latest.version_id,
        preset_id: latest.preset_id,
        values: parameters::resolve(&version.params, &[&given, &latest.values])?,
        then_start: body.contains_key("on_success"),
    })
}

fn transition(body: &Map<String, Value>) -> Result<Transition, Reply> {
    match body.get("transition").and_then(Value::as_str).unwrap_or_default() {
        "start" => Ok(Transition::Start),
        "stop" => Ok(Transition::Stop),
        "delete" => Ok(Transition::Delete),
        other => Err(validation_failed(&[Validation::tag("transition", "oneof", other)])),
    }
}

fn check_options(transition: Transition, body: &Map<String, Value>) -> Result<(), Reply> {
    let orphan = body.get("orphan").and_then(Value::as_bool).unwrap_or_default();
    if orphan && transition != Transition::Delete {
        return Err(Reply::error(400, "Orphan is only permitted when deleting a workspace."));
    }
    if body.contains_key("on_success") && transition != Transition::Stop {
        return Err(Reply::error(400, "OnSuccess is only permitted when stopping a workspace."));
    }
    Ok(())
}
