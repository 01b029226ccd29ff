//! Squads on the real program: an engine that shows what it got, in workspaces that are real directories.

mod budget;
mod chats;
mod engines;
mod members;
mod modes;
mod places;
mod prompts;
mod real;
mod restarts;
mod rights;
mod surfaces;

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use fleet_mcp::domain::id::SquadId;
use fleet_mcp::store::{Store, StoreOptions};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Program, Reply, Up};

/// Runs the task as a script; the role is its first argument.
const SCRIPT: &str = "sh\n-c\n<% task %>\nmember\n<% roleId %>\n";

/// A server whose squads run by this template, in the repository it was started in.
struct Squads {
    up: Up,
}

impl Squads {
    /// Members whose tasks are shell scripts.
    async fn scripted() -> Self {
        Self::with(SCRIPT, &[]).await
    }

    async fn with(template: &str, variables: &[(&str, &str)]) -> Self {
        Self::on(program(template, variables)).await
    }

    async fn on(program: Program) -> Self {
        Self { up: Up::start_here(&program).await }
    }

    /// Runs members to their end.
    async fn run(&self, members: &Value) -> Value {
        self.up.post("/api/v1/squads", &json!({ "members": members })).await
    }

    /// The only member of a squad.
    async fn run_one(&self, member: Value) -> Value {
        self.run(&json!([member])).await["members"][0].clone()
    }

    async fn begin(&self, members: &Value) -> String {
        let body = json!({ "members": members, "async": true });
        self.up.post("/api/v1/squads", &body).await["squadId"].as_str().unwrap().to_owned()
    }

    async fn refused(&self, body: &Value) -> Reply {
        self.up.call_as(&self.up.operator_token(), Method::POST, "/api/v1/squads", body).await
    }

    /// Waits until all members have ended.
    async fn done(&self, squad: &str) -> Value {
        loop {
            let status = self.up.get(&format!("/api/v1/squads?squadId={squad}&wait_seconds=45")).await;
            if status["done"] == true {
                return status;
            }
        }
    }

    /// From when to when each member worked, as the record has it; the server is ended for that.
    async fn recorded(self, run: &Value) -> Vec<(DateTime<Utc>, DateTime<Utc>)> {
        let program = self.up.program.clone();
        drop(self);
        let store = store(&program).await;
        let id = SquadId(run["squadId"].as_str().unwrap().parse().unwrap());
        let squad = store.squad_by_id(id).await.unwrap().unwrap();
        store.close().await;
        squad.members.iter().map(|member| (member.began_at.unwrap(), member.ended_at.unwrap())).collect()
    }

    fn repository(&self) -> PathBuf {
        self.up.program.repository()
    }

    /// A file beside the repository, for signs of life.
    fn sign(&self, name: &str) -> PathBuf {
        self.up.program.directory.path().join(name)
    }
}

fn program(template: &str, variables: &[(&str, &str)]) -> Program {
    let program = Program::without_coder().variable("ENGINE", "custom");
    let path = program.directory.path().join("run.template");
    std::fs::write(&path, template).unwrap();
    let program = program.variable("RUN_TEMPLATE_PATH", path.to_str().unwrap());
    variables.iter().fold(program, |program, (name, value)| program.variable(name, value))
}

/// The store of a program that does not run.
async fn store(program: &Program) -> Store {
    let data = program.data_dir();
    let options = StoreOptions { path: data.join("fleet.db"), backups: data.join("backups") };
    Store::open(&options).await.unwrap()
}

fn member(role: &str, task: &str) -> Value {
    json!({ "roleId": role, "task": task })
}

/// Status and output of each member, in order.
fn told(members: &Value) -> Vec<(String, String)> {
    let text = |member: &Value, name: &str| member[name].as_str().unwrap().to_owned();
    let members = members.as_array().unwrap().iter();
    members.map(|member| (text(member, "status"), text(member, "rawStdout"))).collect()
}
