//! A disk that is full: clearly refused with nothing half made, and all goes on as soon as there is room again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::harness::{Api, Program, Reply, eventually, kill, processes_under, read, server_file, skipped};

/// The real program, whose data directory is a small disk that it alone sees mounted.
struct Small {
    program: Program,
    child: Child,
    api: Api,
    token: String,
}

const MOUNT: &str = r#"mount -t tmpfs -o size=32m,mode=0700 small "$0" && exec "$@""#;

/// Prints a note and returns true if mounting is forbidden.
fn is_skipped() -> bool {
    let tried = std::process::Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "small", "/mnt"])
        .output();
    let is_able = rustix::process::getuid().is_root() && tried.is_ok_and(|ended| ended.status.success());
    if !is_able {
        skipped("a small disk needs root, 'unshare' and the right to mount");
    }
    !is_able
}

impl Small {
    async fn start() -> Self {
        let program = Program::without_coder();
        std::fs::create_dir(program.data_dir()).unwrap();
        let plain = program.command(&["up", "--port", "0"]);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", MOUNT]).arg(program.data_dir());
        command.arg(plain.get_program()).args(plain.get_args()).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let log = std::fs::File::create(program.directory.path().join("server.log")).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let data = inside(&child, &program.data_dir());
        eventually("the server announces itself", async || {
            server_file(&data).is_some_and(|file| Some(file.pid) == child.id())
        })
        .await;
        let url = server_file(&data).unwrap().url.as_str().trim_end_matches('/').to_owned();
        let token = std::fs::read_to_string(data.join("operator.token")).unwrap().trim().to_owned();
        Self { program, child, api: Api::new(&url, ""), token }
    }

    fn data(&self) -> PathBuf {
        inside(&self.child, &self.program.data_dir())
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> Reply {
        let request = self.api.bare(method, &format!("/api/v1{path}")).bearer_auth(&self.token);
        read(if body.is_null() { request } else { request.json(body) }).await.unwrap()
    }

    async fn create(&self, name: &str) -> Reply {
        let body = json!({ "project": "setup", "spec": "say hello", "name": name, "wait_seconds": 45 });
        self.call(Method::POST, "/agents", &body).await
    }

    /// An agent that waits for work.
    async fn agent(&self, name: &str) {
        let made = self.create(name).await;
        assert_eq!(made.status, 201, "{}", made.body);
        self.rests(name).await;
    }

    async fn rests(&self, name: &str) {
        eventually("it rests", async || {
            let shown = self.call(Method::GET, &format!("/agents/{name}"), &Value::Null).await.body;
            shown["agent"]["status"] == "idle" && !shown["agent"]["callback"].is_null()
        })
        .await;
    }

    /// What an agent says of itself.
    async fn report_of(&self, name: &str) -> Reply {
        let path = self.data().join("workspaces").join(name).join("fleet/token");
        let token = std::fs::read_to_string(path).unwrap();
        let report = json!({ "state": "working", "summary": "x" });
        let request = self.api.bare(Method::POST, "/api/v1/report").bearer_auth(token.trim());
        read(request.json(&report)).await.unwrap()
    }

    async fn status(&self, name: &str) -> Value {
        self.call(Method::GET, &format!("/agents/{name}"), &Value::Null).await.body["agent"]["status"].clone()
    }

    fn fill(&self) {
        drop(std::fs::File::create(self.data().join("filler")).unwrap());
        self.fill_further();
    }

    /// Takes what has become free since.
    fn fill_further(&self) {
        let filler = std::fs::OpenOptions::new().append(true).open(self.data().join("filler"));
        let mut filler = filler.unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.data().join("filler")).unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        kill_process(pid.unwrap(), signal).unwrap();
    }

    fn workspaces(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.data().join("workspaces")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.child.id().into_iter().for_each(kill);
        processes_under(self.program.directory.path()).into_iter().for_each(kill);
    }
}

/// A path as the process sees it.
fn inside(child: &Child, path: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{}", child.id().unwrap(), path.display()))
}

fn refusal(reply: &Reply) -> (u16, Value, Value, Value) {
    let told = |field: &str| reply.body[field].clone();
    (reply.status, told("code"), told("message"), told("next_action"))
}

fn full() -> (u16, Value, Value, Value) {
    (
        500,
        json!("INTERNAL"),
        json!("the disk that holds the data directory is full; nothing was changed"),
        json!("Free disk space, then call again."),
    )
}

#[tokio::test]
async fn a_full_disk_is_named_leaves_nothing_half_made_and_is_forgotten_when_there_is_room() {
    if is_skipped() {
        return;
    }
    let mut small = Small::start().await;
    small.agent("one").await;
    small.fill();
    assert_eq!(refusal(&small.create("two").await), full());
    let listed = small.call(Method::GET, "/agents", &Value::Null).await;
    assert_eq!((listed.status, &listed.body["agents"][0]["name"]), (200, &json!("one")));
    assert_eq!((&listed.body["total_count"], small.workspaces()), (&json!(1), vec!["one".to_owned()]));

    small.make_room();
    small.agent("two").await;
    small.fill();
    // It can be stopped all the same, though no row can be written about it.
    assert_eq!(small.call(Method::POST, "/shutdown", &json!({})).await.status, 202);
    assert!(small.child.wait().await.unwrap().success(), "{}", small.program.log());
    assert_eq!(processes_under(small.program.directory.path()), Vec::<u32>::new());
}

#[tokio::test]
async fn on_a_full_disk_tasks_are_canceled_and_agents_stopped_and_deleted_while_nothing_new_begins() {
    if is_skipped() {
        return;
    }
    let small = Small::start().await;
    for name in ["one", "two"] {
        small.agent(name).await;
    }
    let task = json!({ "task_description": "sleep 600" });
    assert_eq!(small.call(Method::POST, "/agents/one/tasks", &task).await.status, 201);
    eventually("it works", async || small.status("one").await == "busy").await;
    small.fill();
    assert_eq!(refusal(&small.call(Method::POST, "/agents/two/tasks", &task).await), full());

    let canceled = small.call(Method::DELETE, "/agents/one/tasks", &Value::Null).await;
    assert_eq!((canceled.status, &canceled.body["task"]["state"]), (200, &json!("canceled")));
    // There is room now, and it is not for this.
    assert_eq!(refusal(&small.call(Method::POST, "/agents/two/tasks", &task).await), full());
    assert_eq!(refusal(&small.create("three").await), full());
    assert_eq!(refusal(&small.report_of("two").await), full());
    let wait = json!({ "wait_seconds": 45 });
    let stopped = small.call(Method::POST, "/agents/one/stop", &wait).await;
    assert_eq!((stopped.status, &stopped.body["agent"]["status"]), (200, &json!("stopped")));
    let deleted = small.call(Method::DELETE, "/agents/two?wait_seconds=45", &Value::Null).await;
    let told = "agent 'two' is deleted; it had no unpushed work";
    assert_eq!((deleted.status, &deleted.body["message"]), (200, &json!(told)));
    assert_eq!(small.workspaces(), ["one"]);
    let trail = small.call(Method::GET, "/audit?page_size=6", &Value::Null).await.body;
    let rows = trail["entries"].as_array().unwrap().iter();
    let rows: Vec<Value> = rows.map(|row| json!([row["action"], row["target"], row["outcome"]])).collect();
    let expected = [
        json!(["delete_agent", "two", "allowed"]),
        json!(["stop_agent", "one", "allowed"]),
        json!(["report_status", "two", "failed"]),
        json!(["create_agent", "three", "failed"]),
        json!(["start_agent_task", "two", "failed"]),
        json!(["cancel_agent_task", "one", "allowed"]),
    ];
    assert_eq!(rows, expected);

    small.make_room();
    small.agent("three").await;
}

#[tokio::test]
async fn an_agent_is_stopped_though_a_process_takes_the_reserve_and_the_record_follows() {
    if is_skipped() {
        return;
    }
    let small = Small::start().await;
    small.agent("one").await;
    let processes = || processes_under(&small.program.data_dir().join("workspaces/one"));
    assert_ne!(processes(), Vec::<u32>::new());
    small.fill();
    assert_eq!(small.call(Method::POST, "/agents/one/stop", &json!({})).await.status, 200);
    // Held up where it stands, most often before it has asked Coder.
    small.signal(Signal::STOP);
    small.fill_further();
    small.signal(Signal::CONT);
    eventually("its processes have ended", async || processes().is_empty()).await;
    small.make_room();
    eventually("it is known to be stopped", async || small.status("one").await == "stopped").await;
}
