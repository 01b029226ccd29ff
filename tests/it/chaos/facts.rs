//! Everything that the checks look at, gathered once: store, fleet, embedded Coder, processes, files.

use std::path::Path;

use serde_json::Value;

use super::database::{Rows, rows};
use super::processes::{Process, processes};
use super::world::World;
use crate::harness::{Api, Up, eventually};

pub(super) struct Facts {
    pub(super) rows: Rows,
    /// Agents as `list_agents` shows them, runs workspaces too.
    pub(super) agents: Vec<Value>,
    pub(super) capacity: Value,
    /// Workspaces as the embedded Coder shows them.
    pub(super) workspaces: Vec<Workspace>,
    pub(super) processes: Vec<Process>,
    /// The agents' own tokens.
    pub(super) tokens: Vec<String>,
    /// What runners wrote: the file's name and its text.
    pub(super) agent_logs: Vec<(String, String)>,
    pub(super) server: Option<u32>,
}

/// What counts of a live workspace.
#[derive(Debug, Clone)]
pub(super) struct Workspace {
    pub(super) id: String,
    pub(super) name: String,
    /// The word of its newest build.
    pub(super) status: String,
}

pub(super) async fn gather(world: &World, up: &Up) -> Facts {
    // The fleet's own list last: it may lag behind Coder by one poll, and never be ahead of it.
    let workspaces = workspaces(&world.program.data_dir()).await;
    let processes = processes(world.program.directory.path());
    let listed = up.get("/api/v1/agents?include_runs=true&page_size=100").await;
    let capacity = up.get("/api/v1/status").await["capacity"].clone();
    let names: Vec<&str> = workspaces.iter().map(|workspace| workspace.name.as_str()).collect();
    let read = |name: &&str, file: &str| Some((format!("{file} of {name}"), up.agent_file(name, file)?));
    let logs = names.iter().flat_map(|name| ["agent.log", "journal.jsonl"].map(|file| read(name, file)));
    let tokens = names.iter().filter_map(|name| up.agent_file(name, "token"));
    Facts {
        tokens: tokens.map(|token| token.trim().to_owned()).collect(),
        agent_logs: logs.flatten().collect(),
        rows: rows(world).await,
        agents: listed["agents"].as_array().unwrap().clone(),
        capacity,
        workspaces,
        processes,
        server: up.child.id(),
    }
}

async fn workspaces(data: &Path) -> Vec<Workspace> {
    let read = |name: &str| std::fs::read_to_string(data.join(name)).unwrap();
    let address: Value = serde_json::from_str(&read("coder.json")).unwrap();
    let coder = Api::new(address["url"].as_str().unwrap().trim_end_matches('/'), read("coder.token").trim());
    let mut listed = Value::Null;
    // The fleet itself may have used up what Coder allows in a minute.
    eventually("Coder lists its workspaces", async || {
        let reply = coder.get("/api/v2/workspaces?limit=100").await;
        assert!(reply.status == 200 || reply.status == 429, "{}: {}", reply.status, reply.body);
        listed = reply.body;
        reply.status == 200
    })
    .await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let workspaces = listed["workspaces"].as_array().unwrap().iter();
    let workspace = |workspace: &Value| Workspace {
        id: text(&workspace["id"]),
        name: text(&workspace["name"]),
        status: text(&workspace["latest_build"]["status"]),
    };
    workspaces.map(workspace).collect()
}

impl Facts {
    pub(super) fn status_of(&self, agent: &str) -> Option<(&str, &str)> {
        let row = self.agents.iter().find(|row| row["name"] == agent)?;
        Some((row["status"].as_str()?, row["attention"].as_str()?))
    }
}
