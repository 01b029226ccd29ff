//! A workspace with a repository, and the real program running in it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Child;

use crate::harness::{Reply, eventually, kill, processes_under, read};

/// The directories of one workspace; runners come and go in it.
pub(super) struct Workspace {
    directory: TempDir,
    variables: Vec<(String, String)>,
}

/// A runner process; dropping it kills that process and no other.
pub(super) struct Runner {
    pub(super) child: Child,
    http: Client,
    base: String,
}

impl Drop for Workspace {
    /// An engine may outlive the runner that was killed over it.
    fn drop(&mut self) {
        processes_under(self.directory.path()).into_iter().for_each(kill);
    }
}

impl Workspace {
    /// With a repository of one commit, and little patience when something is interrupted.
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Self { directory, variables: Vec::new() };
        std::fs::create_dir(workspace.repo()).unwrap();
        workspace.git(&["init", "--quiet", "--initial-branch=main"]);
        workspace.git(&["commit", "--quiet", "--allow-empty", "--message=Begin"]);
        workspace.variable("FLEET_INTERRUPT_MS", "200").variable("FLEET_TERMINATE_MS", "200")
    }

    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn prompt(self, prompt: &str) -> Self {
        std::fs::create_dir_all(self.fleet()).unwrap();
        std::fs::write(self.fleet().join("prompt"), prompt).unwrap();
        self
    }

    /// A file of the agent's directory, as the control plane would leave it.
    pub(super) fn leave(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.fleet()).unwrap();
        std::fs::write(self.fleet().join(name), text).unwrap();
    }

    /// An engine that is a shell script: it gets the template's further lines as arguments.
    pub(super) fn script(self, script: &str, more: &str) -> Self {
        let path = self.directory.path().join("agent.sh");
        std::fs::write(&path, script).unwrap();
        let template = self.directory.path().join("run.template");
        std::fs::write(&template, format!("/bin/sh\n{}\n{more}\n", path.display())).unwrap();
        let template = template.to_str().unwrap().to_owned();
        self.variable("FLEET_ENGINE", "custom").variable("RUN_TEMPLATE_PATH", &template)
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.directory.path().join("repo")
    }

    pub(super) fn fleet(&self) -> PathBuf {
        self.directory.path().join("fleet")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("agent.sock")
    }

    pub(super) fn git(&self, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=Test", "-c", "user.email=test@fleet.invalid"];
        let output =
            Command::new("git").arg("-C").arg(self.repo()).args(identity).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The subjects of all commits but the first, oldest first.
    pub(super) fn commits(&self) -> Vec<String> {
        let log = self.git(&["log", "--reverse", "--format=%s"]);
        log.lines().skip(1).map(str::to_owned).collect()
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleet-mcp"));
        command.args(arguments).current_dir(self.repo()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.directory.path());
        command.env("FLEET_ENGINE", "demo").env("FLEET_AGENT_DIR", self.fleet());
        command.env("FLEET_AGENT_SOCKET", self.socket()).env("FLEET_GENERATION", "7");
        command.env("CODER_WORKSPACE_NAME", "ann").envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.log()).process_group(0);
        command
    }

    /// Starts a runner and waits until it answers.
    pub(super) async fn start(&self) -> Runner {
        self.started(self.command(&["agent"])).await
    }

    /// Starts a runner whose files cannot grow beyond some 64 kB, as on a disk that is nearly full.
    pub(super) async fn start_with_small_files(&self) -> Runner {
        let plain = self.command(&["agent"]);
        let mut limited = Command::new("/bin/sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" agent"]).arg(plain.get_program());
        limited.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.current_dir(self.repo()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.log());
        self.started(limited).await
    }

    /// Starts a runner by a command that a test has changed.
    pub(super) async fn started(&self, command: Command) -> Runner {
        let child = spawn(command);
        let http = Client::builder().unix_socket(self.socket()).build().unwrap();
        Runner { child, http, base: "http://agent".to_owned() }.ready().await
    }

    pub(super) async fn start_on_port(&self, port: u16) -> Runner {
        let child = spawn(self.command(&["agent", "--port", &port.to_string()]));
        let http = Client::builder().no_proxy().build().unwrap();
        Runner { child, http, base: format!("http://127.0.0.1:{port}") }.ready().await
    }

    fn log(&self) -> std::fs::File {
        let path = self.directory.path().join("runner.log");
        std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    pub(super) fn metadata(&self, key: &str) -> String {
        std::fs::read_to_string(self.fleet().join("metadata").join(key)).unwrap()
    }

    /// Numbers of living processes that belong to any run in this workspace.
    pub(super) fn processes_of_runs(&self) -> Vec<u32> {
        let home = format!("HOME={}", self.directory.path().display());
        let numbers = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|number| is_of_run(*number, &home)).collect()
    }
}

fn spawn(command: Command) -> Child {
    tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap()
}

fn is_of_run(number: u32, home: &str) -> bool {
    let environment = std::fs::read(Path::new("/proc").join(number.to_string()).join("environ"));
    let environment = environment.unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    let is_here = variables.clone().any(|variable| variable == home.as_bytes());
    is_here && variables.any(|variable| variable.starts_with(b"FLEET_RUN="))
}

impl Runner {
    async fn ready(self) -> Self {
        eventually("the runner answers", async || self.try_get("/status").await.is_ok()).await;
        self
    }

    pub(super) fn get_request(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.base))
    }

    pub(super) fn post_request(&self) -> RequestBuilder {
        self.http.post(format!("{}/message", self.base))
    }

    pub(super) async fn try_get(&self, path: &str) -> reqwest::Result<Reply> {
        read(self.get_request(path)).await
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let reply = self.try_get(path).await.unwrap();
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.body
    }

    pub(super) async fn try_post(&self, body: &Value) -> reqwest::Result<Reply> {
        read(self.post_request().json(body)).await
    }

    pub(super) async fn post(&self, body: &Value) -> Reply {
        self.try_post(body).await.unwrap()
    }

    /// Sends a message that must be taken.
    pub(super) async fn say(&self, content: &str) {
        self.taken(&json!({ "content": content, "type": "user" })).await;
    }

    pub(super) async fn task(&self, task_id: &str, content: &str) {
        self.taken(&json!({ "content": content, "type": "user", "task_id": task_id })).await;
    }

    pub(super) async fn escape(&self) {
        self.taken(&json!({ "content": "\u{1b}", "type": "raw" })).await;
    }

    pub(super) async fn taken(&self, body: &Value) {
        let reply = self.post(body).await;
        assert_eq!((reply.status, reply.body), (200, json!({ "ok": true })));
    }

    pub(super) async fn stable(&self) {
        eventually("the agent is stable", async || self.get("/status").await["status"] == "stable").await;
    }

    /// Waits until the agent's last words begin so.
    pub(super) async fn says(&self, words: &str) {
        eventually("the words are said", async || {
            let messages = self.get("/messages").await;
            let last = messages["messages"].as_array().unwrap().last().unwrap();
            last["role"] == "agent" && last["content"].as_str().is_some_and(|text| text.contains(words))
        })
        .await;
    }

    pub(super) async fn state(&self) -> Value {
        self.get("/fleet/state").await
    }

    /// Task id and outcome of every turn that has ended.
    pub(super) async fn outcomes(&self) -> Vec<(Value, Value)> {
        let state = self.state().await;
        let turns = state["turns"].as_array().unwrap().iter();
        turns.map(|turn| (turn["task_id"].clone(), turn["outcome"].clone())).collect()
    }

    /// Sends a message, waits for its end, and shows how it ended and what the agent said.
    pub(super) async fn ask(&self, content: &str) -> (Value, String) {
        self.say(content).await;
        self.stable().await;
        let outcome = self.outcomes().await.pop().unwrap().1;
        let messages = self.get("/messages").await;
        let said = messages["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        (outcome, said.as_str().unwrap().to_owned())
    }

    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks it to end; its exit code.
    pub(super) async fn terminate(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await;
        ended.expect("the runner ends").unwrap().code()
    }
}
