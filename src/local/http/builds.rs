//! Endpoints that request, show and cancel builds.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answer::{Answer, Refusal, Validation, created, object, ok, uuid};
use super::auth::SignedIn;
use super::create::{closing, given_values};
use super::workspaces::page_number;
use crate::coder::wire::Transition;
use crate::local::build::{self, BuildRequest};
use crate::local::record::{Build, Job, Reason, Workspace};
use crate::local::{Deployment, parameters, shape};

type Parameters = Query<HashMap<String, String>>;

pub(super) async fn list(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
    Query(query): Parameters,
) -> Answer {
    let id = uuid(&id)?;
    let limit = page_number(&query, "limit")?.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let offset = page_number(&query, "offset")?.unwrap_or_default();
    let since: Option<DateTime<Utc>> = query.get("since").and_then(|text| text.parse().ok());
    state.read(|memory| {
        let workspace = memory.workspaces.get(&id).ok_or_else(Refusal::not_found)?;
        let newest_first = workspace.builds.iter().rev();
        let wanted = newest_first.filter(|build| since.is_none_or(|since| build.created_at > since));
        let page = wanted.skip(offset).take(limit);
        ok(&page.map(|build| shape::build(&state, memory, workspace, build)).collect::<Value>())
    })
}

pub(super) async fn create(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
    body: Bytes,
) -> Answer {
    let id = uuid(&id)?;
    let body = object(&body)?;
    let ((build, shown, is_stop), saving) = state.change(id, |memory| {
        closing(memory)?;
        let workspace = memory.workspaces.get(&id).ok_or_else(Refusal::not_found)?;
        let request = checked(&state, workspace, &body)?;
        let is_stop = request.transition == Transition::Stop && !request.then_start;
        let build = build::push(memory, id, request).ok_or_else(Refusal::not_found)?;
        let (workspace, made) = memory.build(build).ok_or_else(Refusal::not_found)?;
        Ok::<_, Refusal>((build, shape::build(&state, memory, workspace, made), is_stop))
    })?;
    // A stop must also work on a full disk: it may free the space.
    if let Err(error) = saving.done().await
        && !is_stop
    {
        build::withdraw(&state, id, build);
        return Err(error.into());
    }
    build::launch(&state, id, build);
    created(&shown)
}

pub(super) async fn parameters(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
) -> Answer {
    let id = uuid(&id)?;
    state.read(|memory| {
        let (_, build) = memory.build(id).ok_or_else(Refusal::not_found)?;
        ok(&shape::values(&build.values))
    })
}

/// The log so far, after the line with the given id.
pub(super) async fn logs(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
    Query(query): Parameters,
) -> Answer {
    let id = uuid(&id)?;
    let after: i64 = query.get("after").and_then(|text| text.parse().ok()).unwrap_or_default();
    state.read(|memory| {
        let (_, build) = memory.build(id).ok_or_else(Refusal::not_found)?;
        ok(&build.logs.iter().filter(|line| line.id > after).map(shape::log_line).collect::<Value>())
    })
}

pub(super) async fn cancel(
    State(state): State<Arc<Deployment>>,
    _: SignedIn,
    Path(id): Path<String>,
    Query(query): Parameters,
) -> Answer {
    let id = uuid(&id)?;
    let workspace = state.read(|memory| memory.build(id).map(|(workspace, _)| workspace.id));
    let workspace = workspace.ok_or_else(Refusal::not_found)?;
    let expected = query.get("expect_status").map(String::as_str);
    let ((), saving) = state.change(workspace, |memory| {
        let record = memory.workspaces.get_mut(&workspace).ok_or_else(Refusal::not_found)?;
        let build = record.build_mut(id).ok_or_else(Refusal::not_found)?;
        check_cancelable(build, expected)?;
        build.cancel();
        memory.cancels.get(&id).into_iter().for_each(|cancel| cancel.cancel());
        Ok::<_, Refusal>(())
    })?;
    saving.done().await?;
    ok(&json!({ "message": "Job has been marked as canceled..." }))
}

fn check_cancelable(build: &Build, expected: Option<&str>) -> Result<(), Refusal> {
    let bad = |message| Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    match build.job {
        Job::Ended { .. } => bad("Job has already completed!"),
        Job::Canceling { .. } => bad("Job has already been marked as canceled!"),
        Job::Pending | Job::Running { .. } => match expected {
            Some(expected) if expected != build.job.word() => {
                Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "Job is not in the expected state."))
            }
            Some(_) | None => Ok(()),
        },
    }
}

fn checked(
    state: &Deployment,
    workspace: &Workspace,
    body: &Map<String, Value>,
) -> Result<BuildRequest, Refusal> {
    let transition = transition(body)?;
    let is_orphan = body.get("orphan").and_then(Value::as_bool).unwrap_or_default();
    let then_start = body.get("on_success").is_some_and(|follow_up| !follow_up.is_null());
    check_options(transition, is_orphan, then_start)?;
    let latest = buildable(workspace, transition)?;
    let mut request = BuildRequest::after(latest, transition, Reason::Initiator);
    (request.is_orphan, request.then_start) = (is_orphan, then_start);
    request.version_id = asked_version(state, workspace, body)?.unwrap_or(latest.version_id);
    if let Some(template) = state.version_of(workspace, request.version_id) {
        let given = given_values(body)?;
        parameters::check_rules(&template.parameters, &given)?;
        parameters::check_fixed(&template.parameters, &latest.values, &given)?;
        request.values = parameters::resolve(&template.parameters, &[&given, &latest.values])?;
    }
    Ok(request)
}

fn transition(body: &Map<String, Value>) -> Result<Transition, Refusal> {
    match body.get("transition").and_then(Value::as_str).unwrap_or_default() {
        "start" => Ok(Transition::Start),
        "stop" => Ok(Transition::Stop),
        "delete" => Ok(Transition::Delete),
        other => Err(Refusal::invalid(&[Validation::tag("transition", "oneof", other)])),
    }
}

fn check_options(transition: Transition, is_orphan: bool, then_start: bool) -> Result<(), Refusal> {
    let bad = |message| Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    if is_orphan && transition != Transition::Delete {
        return bad("Orphan is only permitted when deleting a workspace.");
    }
    if then_start && transition != Transition::Stop {
        return bad("OnSuccess is only permitted when stopping a workspace.");
    }
    Ok(())
}

/// The newest build, if another one may follow it.
fn buildable(workspace: &Workspace, transition: Transition) -> Result<&Build, Refusal> {
    if workspace.is_deleted && transition != Transition::Delete {
        let word = if transition == Transition::Start { "start" } else { "stop" };
        return Err(Refusal::new(StatusCode::CONFLICT, &format!("Cannot {word} a deleted workspace!"))
            .detail("This workspace has been deleted and cannot be modified."));
    }
    let latest = workspace.latest().ok_or_else(Refusal::not_found)?;
    if latest.job.is_active() {
        let message = "A workspace build is already active.";
        return Err(Refusal::new(StatusCode::CONFLICT, message).detail(message));
    }
    Ok(latest)
}

/// The requested version; without one the workspace keeps its own.
fn asked_version(
    state: &Deployment,
    workspace: &Workspace,
    body: &Map<String, Value>,
) -> Result<Option<Uuid>, Refusal> {
    let Some(given) = body.get("template_version_id").and_then(Value::as_str) else { return Ok(None) };
    let known = Uuid::try_parse(given).ok().and_then(|id| state.version(id));
    match known.filter(|version| version.id == workspace.template.id) {
        Some(version) => Ok(Some(version.version_id)),
        None => {
            let row = Validation::new("template_version_id", "template version not found");
            Err(Refusal::new(StatusCode::BAD_REQUEST, "Template version not found.").validations(&[row]))
        }
    }
}
