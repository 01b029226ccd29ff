//! An embedded Coder on a data directory of its own, whose agents are the real program with the demo engine.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet_mcp::coder::Client;
use fleet_mcp::coder::wire::Workspace;
use fleet_mcp::domain::budget::Budget;
use fleet_mcp::domain::project::Project;
use fleet_mcp::domain::role::{Role, RoleKind};
use fleet_mcp::local::{
    LocalCoder, LocalError, LocalLimits, LocalOptions, RunnerCommand, TemplateFiles, TemplateSources,
};
use rustix::process::{Pid, Signal, kill_process};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Api, CREATE, Reply, client};

/// The template that most tests use: an empty repository.
pub(crate) const TEMPLATE: &str = "fleet";

/// The directory of an embedded Coder; processes that a failed test leaves running there are killed with it.
pub(crate) struct LocalSite {
    pub(crate) directory: Arc<TempDir>,
    pub(crate) files: Arc<FixedFiles>,
    pub(crate) options: LocalOptions,
}

/// Projects that a test gives, and may change while a Coder runs.
#[derive(Debug)]
pub(crate) struct FixedFiles {
    pub(crate) projects: Mutex<Vec<Project>>,
}

impl Default for FixedFiles {
    fn default() -> Self {
        Self { projects: Mutex::new(vec![project(TEMPLATE, None)]) }
    }
}

impl TemplateFiles for FixedFiles {
    fn read(&self) -> TemplateSources {
        TemplateSources {
            projects: self.projects.lock().unwrap().clone(),
            roles: vec![role("coder", "You write code."), role("reviewer", "You read code.")],
        }
    }
}

/// A running embedded Coder of one site.
pub(crate) struct RunningLocal {
    pub(crate) coder: LocalCoder,
    pub(crate) url: String,
    pub(crate) token: String,
}

/// A running embedded Coder that is going to die as by `kill -9`: between two steps of its work.
pub(crate) struct DoomedLocal {
    pub(crate) local: RunningLocal,
    runtime: tokio::runtime::Runtime,
}

impl DoomedLocal {
    pub(crate) async fn crash(self) {
        let ending = move || self.runtime.shutdown_timeout(Duration::from_secs(30));
        tokio::task::spawn_blocking(ending).await.unwrap();
    }
}

impl LocalSite {
    pub(crate) fn new() -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let files = Arc::new(FixedFiles::default());
        let options = LocalOptions {
            data_dir: directory.path().join("data"),
            port: 0,
            slots: NonZeroUsize::new(3).unwrap(),
            files: Arc::clone(&files) as _,
            here: None,
            engine: "demo".to_owned(),
            agent_files: Vec::new(),
            runner: RunnerCommand {
                program: PathBuf::from(env!("CARGO_BIN_EXE_fleet-mcp")),
                arguments: vec!["agent".to_owned()],
            },
            encloser: PathBuf::from(env!("CARGO_BIN_EXE_fleet-mcp")),
            hidden: Vec::new(),
            allows_less_isolation: false,
            build_deadline: Duration::from_secs(60),
            limits: LocalLimits::NORMAL,
        };
        Self { directory, files, options }
    }

    pub(crate) fn project(self, project: Project) -> Self {
        self.files.projects.lock().unwrap().push(project);
        self
    }

    pub(crate) fn here(mut self, directory: &Path) -> Self {
        self.options.here = Some(directory.to_owned());
        self.project(project("here", None))
    }

    pub(crate) async fn start(&self) -> RunningLocal {
        self.try_start().await.unwrap()
    }

    pub(crate) async fn start_doomed(&self) -> DoomedLocal {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let coder = runtime.spawn(LocalCoder::start(self.options.clone())).await.unwrap().unwrap();
        DoomedLocal { local: RunningLocal::of(coder), runtime }
    }

    pub(crate) async fn try_start(&self) -> Result<RunningLocal, LocalError> {
        Ok(RunningLocal::of(LocalCoder::start(self.options.clone()).await?))
    }

    /// Agents of a program that starts and never answers.
    pub(crate) fn with_silent_agents(mut self) -> Self {
        self.options.runner.program = "/bin/sh".into();
        self.options.runner.arguments = vec!["-c".into(), "exec sleep 600".into()];
        self
    }

    pub(crate) fn data_dir(&self) -> &Path {
        &self.options.data_dir
    }

    /// Processes of the demo engine in these workspaces.
    pub(crate) fn engines(&self) -> Vec<u32> {
        let is_engine = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"demo-engine")
        };
        self.processes().into_iter().filter(is_engine).collect()
    }

    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.data_dir().join("workspaces").join(name)
    }

    /// Names in the directory of workspaces: what is made, and what would be left over.
    pub(crate) fn workspace_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.data_dir().join("workspaces")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// All processes of its workspaces, also those that a runner has for a moment.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes_under(self.directory.path())
    }

    pub(crate) fn runners(&self) -> Vec<u32> {
        runners_under(self.directory.path())
    }

    /// Waits for an engine that obeys `hang`: it catches INT and TERM.
    pub(crate) async fn has_deaf_engine(&self) {
        super::eventually("the engine is deaf", async || self.engines().into_iter().any(is_deaf)).await;
    }

    /// The runner of the only workspace that runs.
    pub(crate) fn runner(&self) -> u32 {
        let runners = self.runners();
        assert_eq!(runners.len(), 1, "one runner runs");
        runners[0]
    }
}

impl Drop for LocalSite {
    fn drop(&mut self) {
        for pid in self.processes() {
            kill(pid);
        }
    }
}

impl RunningLocal {
    fn of(coder: LocalCoder) -> Self {
        let url = coder.url().as_str().trim_end_matches('/').to_owned();
        let token = coder.token().expose_secret().to_owned();
        Self { coder, url, token }
    }

    pub(crate) async fn cancel(&self, build: &Value) {
        let path = format!("/api/v2/workspacebuilds/{}/cancel", build.as_str().expect("an id"));
        assert_eq!(self.api().patch(&path, &Value::Null).await.status, 200);
    }

    pub(crate) fn api(&self) -> Api {
        Api::new(&self.url, &self.token)
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.url, &self.token)
    }

    /// Creates a workspace whose agent is told this first.
    pub(crate) async fn create(&self, template: &str, name: &str, prompt: &str) -> Reply {
        let api = self.api();
        let found = api.get(&format!("/api/v2/organizations/coder/templates/{template}")).await.body;
        let values = json!([{ "name": "AI Prompt", "value": prompt }]);
        let body = json!({ "name": name, "template_id": found["id"], "rich_parameter_values": values });
        api.post(CREATE, &body).await
    }

    /// Creates a workspace and waits until its agent is ready.
    pub(crate) async fn create_ready(&self, name: &str) -> Workspace {
        let created = self.create(TEMPLATE, name, "").await;
        assert_eq!(created.status, 201, "{}", created.body);
        self.until(&created.body["id"], is_ready).await
    }

    pub(crate) async fn build(&self, workspace: &Value, body: &Value) -> Reply {
        let id = workspace.as_str().expect("an id");
        self.api().post(&format!("/api/v2/workspaces/{id}/builds"), body).await
    }

    pub(crate) async fn until(&self, workspace: &Value, wanted: fn(&Workspace) -> bool) -> Workspace {
        let id = workspace.as_str().expect("an id").parse().unwrap();
        super::watched(&self.api(), id, wanted).await
    }
}

pub(crate) fn is_ready(workspace: &Workspace) -> bool {
    let mut agents = workspace.latest_build.resources.iter().flat_map(|resource| &resource.agents);
    agents
        .any(|agent| agent.lifecycle_state == "ready" && agent.apps.iter().any(|app| app.health == "healthy"))
}

pub(crate) fn is_over(workspace: &Workspace) -> bool {
    matches!(workspace.latest_build.job.status.as_str(), "succeeded" | "failed" | "canceled")
}

pub(crate) fn project(name: &str, repo: Option<&str>) -> Project {
    Project {
        name: name.to_owned(),
        display_name: name.to_owned(),
        description: "A project of the tests.".to_owned(),
        template: name.to_owned(),
        organization: None,
        app_slug: None,
        default_role: "coder".to_owned(),
        repo: repo.map(str::to_owned),
        branch: None,
        engine: None,
        container: None,
        agentless: false,
        parameters: BTreeMap::new(),
        forge: None,
    }
}

/// Processes of any workspace of this data directory. Those that only enclose others are named when nothing else is
/// left.
pub(crate) fn processes_under(directory: &Path) -> Vec<u32> {
    let all = all_processes_under(directory);
    let commands: Vec<u32> = all.iter().copied().filter(|pid| !encloses(*pid)).collect();
    if commands.is_empty() { all } else { commands }
}

/// Processes that carry the marker of any workspace of this data directory in their environment.
pub(crate) fn all_processes_under(directory: &Path) -> Vec<u32> {
    let mark = format!("FLEET_AGENT_DIR={}/", directory.display());
    let carries = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(carries).collect()
}

/// The runners among them: each is the process that every other one of its workspace descends from. A child that a
/// runner has just forked has the runner's command line until it becomes its command, and is left out by its parent.
pub(crate) fn runners_under(directory: &Path) -> Vec<u32> {
    let is_candidate = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == b"agent")
    };
    let candidates: Vec<u32> = processes_under(directory).into_iter().filter(is_candidate).collect();
    let is_runner = |pid: &u32| parent(*pid).is_some_and(|parent| !candidates.contains(&parent));
    candidates.iter().copied().filter(is_runner).collect()
}

/// None once the process has ended.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Where the server keeps what it trusts of a workspace: the socket and the log of its agent.
pub(crate) fn trusted_directory(data_dir: &Path, name: &str) -> PathBuf {
    let states = std::fs::read_dir(data_dir.join("coder/workspaces")).unwrap();
    // Others are being written and get their name afterwards.
    let states = states
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"));
    let states = states.map(|path| std::fs::read_to_string(path).unwrap());
    let mut states = states.map(|text| serde_json::from_str::<Value>(&text).unwrap()["content"].clone());
    let of_name = states.find(|state| state["name"] == name && state["is_deleted"] == false);
    data_dir.join("coder/agents").join(of_name.expect("the workspace is known")["id"].as_str().unwrap())
}

fn is_deaf(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default();
    let both = [Signal::INT, Signal::TERM].map(|signal| 1 << (signal.as_raw() - 1));
    both.into_iter().all(|bit: u64| caught & bit != 0)
}

fn encloses(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(b"enclose")
}

pub(crate) fn kill(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // It may have ended by itself.
        kill_process(pid, Signal::KILL).ok();
    }
}

fn role(id: &str, prompt: &str) -> Role {
    Role {
        id: id.to_owned(),
        name: id.to_owned(),
        display_name: id.to_owned(),
        description: String::new(),
        kind: RoleKind::Coding,
        budget: Budget::default(),
        prompt: prompt.to_owned(),
    }
}
