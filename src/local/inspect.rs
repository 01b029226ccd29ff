//! Compares the record of workspaces with the actual directories and processes, for `doctor`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};

use super::build::{MOVING, ORPHAN};
use super::record::{Agent, Connection, Workspace};
use super::{Deployment, LocalCoder};
use crate::domain::environment::DIRECTORY_VARIABLE;
use crate::domain::hosting::HostFindings;
use crate::domain::name::AgentName;
use crate::process::{Marked, is_alive, marked};

/// Younger ones may belong to a running build.
const SETTLING: Duration = Duration::from_secs(60);

/// Inspects the machine for one embedded Coder.
#[derive(Debug, Clone)]
pub struct Inspector(Arc<Deployment>);

impl LocalCoder {
    pub fn inspector(&self) -> Inspector {
        Inspector(Arc::clone(&self.deployment))
    }
}

impl Inspector {
    /// Reads the process table and two directories; blocks for some milliseconds.
    pub fn inspect(&self) -> std::io::Result<HostFindings> {
        let root = self.0.layout.workspaces();
        let names = settled_names(&root)?;
        let kept = settled_names(&self.0.layout.agents())?;
        let active = self.processes_of(&root)?;
        let live: Vec<Workspace> = self.0.read(|memory| {
            memory.workspaces.values().filter(|workspace| !workspace.is_deleted).cloned().collect()
        });
        let is_live = |name: &&String| live.iter().any(|workspace| workspace.is_named(name));
        let may_run = |name: &&String| {
            let mut named = live.iter().filter(|workspace| workspace.is_named(name));
            named.any(|workspace| workspace.agent().is_some() || is_building(workspace))
        };
        let is_owned = |id: &&String| live.iter().any(|workspace| workspace.id.to_string() == **id);
        let leftovers = names.iter().filter(|name| !is_live(name)).cloned();
        let leftovers =
            leftovers.chain(kept.iter().filter(|id| !is_owned(id)).map(|id| format!("coder/agents/{id}")));
        let strays = active.iter().filter(|name| !may_run(name));
        let lost = live.iter().filter(|workspace| has_lost_its_process(workspace, Utc::now()));
        Ok(HostFindings {
            leftovers: leftovers.map(|name| format!("directory '{name}' belongs to no workspace")).collect(),
            strays: strays
                .map(|name| format!("a process runs in workspace '{name}', which is not running"))
                .collect(),
            lost: lost
                .map(|known| {
                    format!("workspace '{}' is recorded as running, but its process has ended", known.name)
                })
                .collect(),
        })
    }

    /// Workspaces of this data directory with a running process.
    fn processes_of(&self, root: &Path) -> std::io::Result<HashSet<String>> {
        let Marked { values, unread } = marked(DIRECTORY_VARIABLE)?;
        unread.map_or(Ok(()), Err)?;
        let names = values.iter().filter_map(|value| AgentName::of_directory(root, value));
        Ok(names.map(|name| name.to_string()).collect())
    }
}

/// Names of directories that are neither being moved nor kept on purpose.
fn settled_names(root: &Path) -> std::io::Result<Vec<String>> {
    let is_old = |entry: &std::fs::DirEntry| {
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > SETTLING))
    };
    let entries = std::fs::read_dir(root)?.filter_map(Result::ok).filter(is_old);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| !name.starts_with(MOVING) && !name.contains(ORPHAN)).collect())
}

fn is_building(workspace: &Workspace) -> bool {
    workspace.latest().is_some_and(|latest| latest.job.is_active())
}

/// A failed look tells nothing about a process.
fn has_lost_its_process(workspace: &Workspace, now: DateTime<Utc>) -> bool {
    let is_gone = |agent: &Agent| match agent.connection {
        Connection::Disconnected { at } => {
            let is_settled = now - at > TimeDelta::from_std(SETTLING).unwrap_or(TimeDelta::MAX);
            let runs = agent.process.as_ref().is_some_and(|process| is_alive(process).unwrap_or(true));
            is_settled && !runs
        }
        Connection::Connecting | Connection::Connected => false,
    };
    workspace.agent().is_some_and(is_gone)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    /// A workspace whose start succeeded, with an agent that lost its connection then.
    fn workspace(connection: &Value, process: &Value) -> Workspace {
        let (nil, past) = (Uuid::nil(), "2026-01-01T00:00:00Z");
        let agent = json!({
            "id": nil, "resource_id": nil, "app_id": nil, "token_hash": "", "created_at": past, "directory": "/",
            "socket": "/", "port": 0, "visible": [], "process": process, "log_start": 0, "connection": connection,
            "first_connected_at": null, "last_connected_at": null, "lifecycle": "ready", "started_at": null,
            "ready_at": null, "app_health": "healthy", "statuses": [],
        });
        let ended =
            json!({ "started_at": null, "canceled_at": null, "completed_at": past, "outcome": "succeeded" });
        let build = json!({
            "id": nil, "job_id": nil, "number": 1, "transition": "start", "reason": "initiator", "version_id": nil,
            "preset_id": null, "values": [], "created_at": past, "job": { "ended": ended }, "then_start": false,
            "is_orphan": false, "logs": [], "agent": agent,
        });
        let workspace = json!({
            "id": nil, "name": "heron", "template": { "id": nil, "name": "", "display_name": "" },
            "created_at": past, "is_deleted": false, "checkout": "own", "is_to_resume": false, "builds": [build],
            "app_status": null,
        });
        serde_json::from_value(workspace).unwrap()
    }

    #[test]
    fn a_workspace_that_has_been_without_its_process_for_a_minute_has_lost_it() {
        let now = Utc::now();
        let gone = json!({ "pid": 1, "start_time": 1, "boot_id": Uuid::nil() });
        let here = serde_json::to_value(crate::process::ProcessId::of(std::process::id()).unwrap()).unwrap();
        let since = |seconds| json!({ "disconnected": { "at": now - TimeDelta::seconds(seconds) } });
        let lost =
            |connection: &Value, process: &Value| has_lost_its_process(&workspace(connection, process), now);
        let found = [
            lost(&since(61), &gone),
            lost(&since(61), &Value::Null),
            lost(&since(59), &gone),
            lost(&since(61), &here),
            lost(&json!("connected"), &gone),
        ];
        assert_eq!(found, [true, true, false, false, false]);
    }
}
