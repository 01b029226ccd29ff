//! The JSON of a build: its job, its log and what it made.

use serde_json::{Value, json};
use uuid::Uuid;

use super::agent::agent;
use super::{put_time, time};
use crate::coder::wire::ParameterValue;
use crate::domain::metadata::START_NOTE;
use crate::local::Deployment;
use crate::local::deployment_info::{DeploymentInfo, USERNAME};
use crate::local::memory::Memory;
use crate::local::record::{Agent, Build, Job, LogLine, Outcome, Workspace};

pub(crate) fn build(deployment: &Deployment, memory: &Memory, workspace: &Workspace, build: &Build) -> Value {
    let info = &deployment.info;
    let version = deployment.version(build.version_id);
    let mut shape = json!({
        "id": build.id,
        "created_at": time(build.created_at),
        "updated_at": time(build.updated_at()),
        "workspace_id": workspace.id,
        "workspace_name": workspace.name,
        "workspace_owner_id": info.user_id,
        "workspace_owner_name": USERNAME,
        "template_version_id": build.version_id,
        "template_version_name": version.as_ref().map(|version| version.version_name()).unwrap_or_default(),
        "build_number": build.number,
        "transition": build.transition,
        "initiator_id": info.user_id,
        "initiator_name": USERNAME,
        "job": job(info, memory, build),
        "reason": build.reason.word(),
        "resources": resources(workspace, build),
        "deadline": null,
        "max_deadline": null,
        "status": build.status(),
        "daily_cost": 0,
        "template_version_preset_id": build.preset_id,
    });
    // Both are known once the provisioner has finished, and are absent after a failure.
    if matches!(build.job, Job::Ended { outcome: Outcome::Succeeded | Outcome::Canceled, .. }) {
        shape["has_ai_task"] = json!(false);
        shape["has_external_agent"] = json!(false);
    }
    shape
}

pub(crate) fn log_line(line: &LogLine) -> Value {
    let is_ours = line.stage == crate::local::build::SETTING_UP;
    json!({
        "id": line.id,
        "created_at": time(line.created_at),
        "log_source": if is_ours { "provisioner_daemon" } else { "provisioner" },
        "log_level": line.level,
        "stage": line.stage,
        "output": line.output,
    })
}

pub(crate) fn values(values: &[ParameterValue]) -> Value {
    values.iter().map(|value| json!({ "name": value.name, "value": value.value })).collect()
}

fn job(info: &DeploymentInfo, memory: &Memory, build: &Build) -> Value {
    let place = memory.queue_position(build);
    let mut shape = json!({
        "id": build.job_id,
        "created_at": time(build.created_at),
        "status": build.job.word(),
        "file_id": build.version_id,
        "queue_position": place.position,
        "queue_size": place.size,
        "organization_id": info.organization_id,
        "initiator_id": info.user_id,
        "input": { "workspace_build_id": build.id },
        "type": "workspace_build",
        // Jobs inside other objects carry empty template data.
        "metadata": {
            "template_version_name": "",
            "template_id": Uuid::nil(),
            "template_name": "",
            "template_display_name": "",
            "template_icon": "",
        },
        "logs_overflowed": false,
    });
    let (started_at, canceled_at, completed_at) = match build.job {
        Job::Pending => (None, None, None),
        Job::Running { started_at } => (Some(started_at), None, None),
        Job::Canceling { started_at, canceled_at } => (Some(started_at), Some(canceled_at), None),
        Job::Ended { started_at, canceled_at, completed_at, .. } => {
            (started_at, canceled_at, Some(completed_at))
        }
    };
    put_time(&mut shape, "started_at", started_at);
    put_time(&mut shape, "canceled_at", canceled_at);
    put_time(&mut shape, "completed_at", completed_at);
    if started_at.is_some() {
        shape["worker_id"] = json!(info.deployment_id);
    }
    if let Job::Ended { outcome: Outcome::Failed { error }, .. } = &build.job {
        shape["error"] = json!(error);
    }
    shape
}

/// Empty until the build has succeeded; builds before the newest have lost their agents.
fn resources(workspace: &Workspace, build: &Build) -> Value {
    let Some(made) = build.agent.as_ref().filter(|_| build.job.has_succeeded()) else { return json!([]) };
    let is_newest = workspace.latest().is_some_and(|latest| latest.id == build.id);
    json!([resource(workspace, build, made, is_newest)])
}

fn resource(workspace: &Workspace, build: &Build, made: &Agent, is_newest: bool) -> Value {
    let mut shape = json!({
        "id": made.resource_id,
        "created_at": time(made.created_at),
        "job_id": build.job_id,
        "workspace_transition": "start",
        "type": "local_directory",
        "name": "agent",
        "hide": false,
        "icon": "",
        "metadata": metadata(workspace, made),
        "daily_cost": 0,
    });
    if is_newest {
        shape["agents"] = json!([agent(workspace, made)]);
    }
    shape
}

fn metadata(workspace: &Workspace, made: &Agent) -> Value {
    let item = |key: &str, value: Value| json!({ "key": key, "value": value, "sensitive": false });
    let notes = Some(workspace.start_notes.join("; ")).filter(|notes| !notes.is_empty());
    let note = notes.map(|notes| item(START_NOTE, json!(notes)));
    [item("directory", json!(made.directory))].into_iter().chain(note).collect()
}
