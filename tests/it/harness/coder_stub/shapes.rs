//! The JSON of workspaces, builds, agents and templates, key for key as a real Coder sends it.

use super::state::{Agent, AgentItem, AppStatus, Build, LogLine, ResourceItem, State, Template, Workspace};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

/// The slug of the app that stands for the agent's AgentAPI.
pub(super) const APP_SLUG: &str = "ccw";

pub(super) fn workspace(state: &State, workspace: &Workspace) -> Value {
    let template = template_of(state, workspace);
    let latest = workspace.latest();
    let failing: Vec<Value> = latest
        .agent
        .iter()
        .filter(|agent| unhealthy_reason(agent).is_some())
        .map(|agent| json!(agent.id))
        .collect();
    json!({
        "id": workspace.id,
        "created_at": time(workspace.created_at),
        "updated_at": time(workspace.created_at),
        "owner_id": workspace.owner.id,
        "owner_name": workspace.owner.username,
        "owner_avatar_url": "",
        "organization_id": state.organization_id,
        "organization_name": "coder",
        "template_id": template.id,
        "template_name": template.name,
        "template_display_name": template.display_name,
        "template_icon": "",
        "template_allow_user_cancel_workspace_jobs": false,
        "template_active_version_id": template.active().id,
        "template_require_active_version": false,
        "template_use_classic_parameter_flow": false,
        "latest_build": build(state, workspace, latest),
        "latest_app_status": workspace.app_status.as_ref().map(|status| app_status(workspace, status)),
        "outdated": latest.version_id != template.active().id,
        "name": workspace.name,
        "last_used_at": time(workspace.created_at),
        "deleting_at": null,
        "dormant_at": null,
        "health": { "healthy": failing.is_empty(), "failing_agents": failing },
        "automatic_updates": "never",
        "allow_renames": false,
        "favorite": false,
        "next_start_at": null,
        "is_prebuild": false,
        "task_id": null,
    })
}

pub(super) fn build(state: &State, workspace: &Workspace, build: &Build) -> Value {
    let version_name = state.version(build.version_id).map_or("", |(_, version)| version.name.as_str());
    let mut shape = json!({
        "id": build.id,
        "created_at": time(build.created_at),
        "updated_at": time(build.completed_at.unwrap_or(build.created_at)),
        "workspace_id": workspace.id,
        "workspace_name": workspace.name,
        "workspace_owner_id": workspace.owner.id,
        "workspace_owner_name": workspace.owner.username,
        "template_version_id": build.version_id,
        "template_version_name": version_name,
        "build_number": build.number,
        "transition": build.transition.as_str(),
        "initiator_id": state.me.id,
        "initiator_name": state.me.username,
        "job": build_job(state, build),
        "reason": "initiator",
        "resources": resources(workspace, build),
        "deadline": null,
        "max_deadline": null,
        "status": build.status,
        "daily_cost": 0,
        "template_version_preset_id": build.preset_id,
    });
    // Both are known only once the provisioner is through, and stay away after a failure.
    if matches!(build.job_status.as_str(), "succeeded" | "canceled") {
        shape["has_ai_task"] = json!(false);
        shape["has_external_agent"] = json!(false);
    }
    shape
}

pub(super) fn agent(workspace: &Workspace, agent: &Agent) -> Value {
    let mut shape = json!({
        "id": agent.id,
        "parent_id": null,
        "created_at": time(agent.created_at),
        "updated_at": time(agent.connected_at.unwrap_or(agent.created_at)),
        "status": agent.status,
        "lifecycle_state": agent.lifecycle,
        "name": "main",
        "resource_id": agent.resource_id,
        "architecture": "amd64",
        "environment_variables": { "CODER_MCP_APP_STATUS_SLUG": APP_SLUG, "FLEET_ROLE": "coder" },
        "operating_system": "linux",
        "logs_length": 0,
        "logs_overflowed": false,
        "directory": "/home/coder",
        "expanded_directory": "/home/coder",
        "version": "v2.36.0",
        "api_version": "2.10",
        "apps": [app(workspace, agent)],
        "connection_timeout_seconds": 120,
        "troubleshooting_url": "https://coder.com/docs/admin/templates/troubleshooting",
        "subsystems": [],
        "health": { "healthy": true },
        "startup_script_behavior": "blocking",
    });
    if let Some(reason) = unhealthy_reason(agent) {
        shape["health"] = json!({ "healthy": false, "reason": reason });
    }
    put(&mut shape, "first_connected_at", agent.connected_at);
    put(&mut shape, "last_connected_at", agent.connected_at);
    put(&mut shape, "started_at", agent.connected_at);
    put(&mut shape, "disconnected_at", agent.disconnected_at);
    put(&mut shape, "ready_at", agent.ready_at);
    shape
}

/// One value of agent metadata; only the watch endpoint tells the script.
pub(super) fn agent_item(item: &AgentItem, script: &str) -> Value {
    let age = (Utc::now() - item.collected_at).num_seconds();
    json!({
        "result": { "collected_at": time(item.collected_at), "age": age, "value": item.value, "error": "" },
        "description": {
            "display_name": item.key,
            "key": item.key,
            "script": script,
            "interval": 5,
            "timeout": 2,
        },
    })
}

pub(super) fn log_line(line: &LogLine) -> Value {
    json!({
        "id": line.id,
        "created_at": time(line.created_at),
        "log_source": if line.stage == "Setting up" { "provisioner_daemon" } else { "provisioner" },
        "log_level": line.level,
        "stage": line.stage,
        "output": line.output,
    })
}

pub(super) fn name_values(values: &[(String, String)]) -> Value {
    values.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

pub(super) fn put(shape: &mut Value, key: &str, at: Option<DateTime<Utc>>) {
    if let Some(at) = at {
        shape[key] = json!(time(at));
    }
}

/// Why Coder calls an agent unhealthy, if it does.
pub(super) fn unhealthy_reason(agent: &Agent) -> Option<&'static str> {
    match (agent.status.as_str(), agent.lifecycle.as_str()) {
        ("connecting", _) => Some("agent has not yet connected"),
        ("timeout", _) => Some("agent is taking too long to connect"),
        ("disconnected", _) => Some("agent has lost connection"),
        (_, "start_error") => Some("agent startup script exited with an error"),
        (_, "start_timeout") => Some("agent startup script timed out"),
        (_, "shutting_down" | "off") => Some("agent is shutting down"),
        (_, _) => None,
    }
}

fn template_of<'a>(state: &'a State, workspace: &Workspace) -> &'a Template {
    state.template(workspace.template_id).expect("templates are never removed")
}

fn build_job(state: &State, build: &Build) -> Value {
    let mut job = json!({
        "id": build.job_id,
        "created_at": time(build.created_at),
        "status": build.job_status,
        "file_id": build.version_id,
        "queue_position": 0,
        "queue_size": 0,
        "organization_id": state.organization_id,
        "initiator_id": state.me.id,
        "input": { "workspace_build_id": build.id },
        "type": "workspace_build",
        // Jobs carry empty template data wherever they are shown inside another object.
        "metadata": {
            "template_version_name": "",
            "template_id": Uuid::nil(),
            "template_name": "",
            "template_display_name": "",
            "template_icon": "",
        },
        "logs_overflowed": false,
    });
    put(&mut job, "started_at", build.started_at);
    put(&mut job, "completed_at", build.completed_at);
    put(&mut job, "canceled_at", build.canceled_at);
    if build.started_at.is_some() {
        job["worker_id"] = json!(state.deployment_id);
    }
    if let Some(error) = &build.error {
        job["error"] = json!(error);
    }
    job
}

fn resources(workspace: &Workspace, build: &Build) -> Value {
    if !build.provisioned {
        return json!([]);
    }
    let mut resource = json!({
        "id": build.agent.as_ref().map_or(build.job_id, |agent| agent.resource_id),
        "created_at": time(build.completed_at.unwrap_or(build.created_at)),
        "job_id": build.job_id,
        "workspace_transition": "start",
        "type": "terraform_data",
        "name": "agent",
        "hide": false,
        "icon": "",
        "daily_cost": 0,
    });
    if let Some(current) = &build.agent {
        resource["agents"] = json!([agent(workspace, current)]);
    }
    if !workspace.resource_metadata.is_empty() {
        resource["metadata"] = workspace.resource_metadata.iter().map(resource_item).collect();
    }
    json!([resource])
}

fn resource_item(item: &ResourceItem) -> Value {
    json!({ "key": item.key, "value": item.value, "sensitive": item.sensitive })
}

fn app(workspace: &Workspace, agent: &Agent) -> Value {
    let statuses: Vec<Value> =
        agent.app_statuses.iter().map(|status| app_status(workspace, status)).collect();
    json!({
        "id": agent.app_id,
        "url": "http://localhost:3284",
        "external": false,
        "slug": APP_SLUG,
        "display_name": "Coding agent",
        "subdomain": false,
        "sharing_level": "owner",
        "healthcheck": { "url": "http://localhost:3284/status", "interval": 2, "threshold": 5 },
        "health": agent.app_health,
        "hidden": false,
        "open_in": "slim-window",
        "statuses": statuses,
    })
}

fn app_status(workspace: &Workspace, status: &AppStatus) -> Value {
    json!({
        "id": status.id,
        "created_at": time(status.created_at),
        "workspace_id": workspace.id,
        "agent_id": status.agent_id,
        "app_id": status.app_id,
        "state": status.state,
        "message": status.message,
        "uri": "",
        "icon": "",
        "needs_user_attention": false,
    })
}
