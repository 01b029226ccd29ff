//! The JSON of a workspace agent, its app and its metadata.

use chrono::Utc;
use serde_json::{Value, json};

use super::{put_time, time};
use crate::local::deployment_info::{AGENT_NAME, APP_SLUG, VERSION};
use crate::local::memory::MetadataItem;
use crate::local::parameters::value_of;
use crate::local::record::{Agent, Connection, Workspace};
use crate::local::template::ROLE;

/// Interval and timeout, in seconds, that the metadata description shows.
const INTERVAL: u32 = 1;
const TIMEOUT: u32 = 1;

pub(crate) fn agent(workspace: &Workspace, agent: &Agent) -> Value {
    let mut shape = json!({
        "id": agent.id,
        "parent_id": null,
        "created_at": time(agent.created_at),
        "updated_at": time(agent.last_connected_at.unwrap_or(agent.created_at)),
        "status": agent.connection.word(),
        "lifecycle_state": agent.lifecycle.word(),
        "name": AGENT_NAME,
        "resource_id": agent.resource_id,
        "architecture": architecture(),
        "environment_variables": {
            "CODER_MCP_APP_STATUS_SLUG": APP_SLUG,
            "FLEET_ROLE": role(workspace),
        },
        "operating_system": std::env::consts::OS,
        "logs_length": 0,
        "logs_overflowed": false,
        "directory": agent.directory,
        "expanded_directory": agent.directory,
        "version": VERSION,
        "api_version": "2.10",
        "apps": [app(agent)],
        "connection_timeout_seconds": 120,
        "troubleshooting_url": "https://coder.com/docs/admin/templates/troubleshooting",
        "subsystems": [],
        "health": { "healthy": true },
        "startup_script_behavior": "blocking",
    });
    if let Some(reason) = agent.unhealthy_reason() {
        shape["health"] = json!({ "healthy": false, "reason": reason });
    }
    put_time(&mut shape, "first_connected_at", agent.first_connected_at);
    put_time(&mut shape, "last_connected_at", agent.last_connected_at);
    put_time(&mut shape, "started_at", agent.started_at);
    put_time(&mut shape, "ready_at", agent.ready_at);
    if let Connection::Disconnected { at } = agent.connection {
        put_time(&mut shape, "disconnected_at", Some(at));
    }
    shape
}

/// One value of agent metadata; only the watch endpoint shows the script.
pub(crate) fn metadata(item: &MetadataItem, script: &str) -> Value {
    let age = (Utc::now() - item.collected_at).num_seconds().max(0);
    json!({
        "result": {
            "collected_at": time(item.collected_at),
            "age": age,
            "value": item.value,
            "error": item.error,
        },
        "description": {
            "display_name": item.key,
            "key": item.key,
            "script": script,
            "interval": INTERVAL,
            "timeout": TIMEOUT,
        },
    })
}

fn app(agent: &Agent) -> Value {
    json!({
        "id": agent.app_id,
        "url": "http://localhost",
        "external": false,
        "slug": APP_SLUG,
        "display_name": "Coding agent",
        "subdomain": false,
        "sharing_level": "owner",
        "healthcheck": { "url": "http://localhost/status", "interval": 2, "threshold": 5 },
        "health": agent.app_health.word(),
        "hidden": false,
        "open_in": "slim-window",
        "statuses": agent.statuses,
    })
}

fn role(workspace: &Workspace) -> &str {
    let values = workspace.latest().map(|latest| latest.values.as_slice()).unwrap_or_default();
    value_of(values, ROLE).unwrap_or_default()
}

/// Coder uses Go's names for processors.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
