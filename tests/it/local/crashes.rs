//! Kills: of the server at any time, of any process of a workspace; afterwards everything shown is true.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fleet_mcp::coder::wire::Workspace;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::harness::{Api, LocalSite, eventually, is_over, is_ready, kill, watched};

/// `local-coder` as a process of its own, so that it can be killed.
pub(super) struct Server {
    child: Child,
    url: String,
    token: String,
}

impl Server {
    pub(super) async fn start(site: &LocalSite, projects: &[(&str, &str)]) -> Self {
        Self::start_in(site, site.directory.path(), projects).await
    }

    /// In this directory, which is the project `here`.
    pub(super) async fn start_in(site: &LocalSite, here: &Path, projects: &[(&str, &str)]) -> Self {
        let mut child = Self::spawn(site, here, projects, &[]);
        Self::announced(site, &mut child).await;
        Self::of(site, child)
    }

    /// A server that dies when one of its builds comes to this point.
    #[cfg(feature = "test-hooks")]
    pub(super) async fn start_doomed(site: &LocalSite, here: &Path, point: &str) -> Self {
        let mut child = Self::spawn(site, here, &[], &[("FLEET_KILL_POINT", point)]);
        Self::announced(site, &mut child).await;
        Self::of(site, child)
    }

    /// Starts a server that dies at this point of a build that an earlier one has left, and waits until it is dead.
    #[cfg(feature = "test-hooks")]
    pub(super) async fn dies_again(site: &LocalSite, here: &Path, point: &str) {
        let child = Self::spawn(site, here, &[], &[("FLEET_KILL_POINT", point)]);
        wait_for_death(child, point).await;
    }

    /// Waits until it has died by itself.
    #[cfg(feature = "test-hooks")]
    pub(super) async fn died(self, point: &str) {
        wait_for_death(self.child, point).await;
    }

    fn spawn(site: &LocalSite, here: &Path, projects: &[(&str, &str)], variables: &[(&str, &str)]) -> Child {
        let folder = site.directory.path().join("projects");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in projects {
            std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
        }
        let mut command = program(site, Path::new(env!("CARGO_BIN_EXE_fleet-mcp")));
        command.arg("local-coder").arg("--data-dir").arg(site.data_dir());
        command.current_dir(here).env("FLEET_PROJECTS_DIR", &folder).envs(variables.iter().copied());
        let log = std::fs::File::create(site.directory.path().join("server.log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }

    async fn announced(site: &LocalSite, child: &mut Child) {
        let address = site.data_dir().join("coder.json");
        eventually("the Coder announces itself", async || {
            let log =
                || std::fs::read_to_string(site.directory.path().join("server.log")).unwrap_or_default();
            assert!(child.try_wait().unwrap().is_none(), "the Coder ended: {}", log());
            let text = std::fs::read_to_string(&address).unwrap_or_default();
            let file: Value = serde_json::from_str(&text).unwrap_or_default();
            file["pid"].as_u64().is_some_and(|pid| Some(pid) == child.id().map(u64::from))
        })
        .await;
    }

    fn of(site: &LocalSite, child: Child) -> Self {
        let address = site.data_dir().join("coder.json");
        let file: Value = serde_json::from_str(&std::fs::read_to_string(address).unwrap()).unwrap();
        let url = file["url"].as_str().unwrap().trim_end_matches('/').to_owned();
        let token = std::fs::read_to_string(site.data_dir().join("coder.token")).unwrap();
        Self { child, url, token }
    }

    pub(super) fn api(&self) -> Api {
        Api::new(&self.url, &self.token)
    }

    pub(super) async fn create(&self, template: &str, name: &str) -> Uuid {
        let created = self.api().workspace_create(template, name).await;
        assert_eq!(created.status, 201, "{}", created.body);
        created.body["id"].as_str().unwrap().parse().unwrap()
    }

    pub(super) async fn until(&self, id: Uuid, wanted: impl Fn(&Workspace) -> bool) -> Workspace {
        watched(&Api::new(&self.url, &self.token), id, wanted).await
    }

    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

#[cfg(feature = "test-hooks")]
async fn wait_for_death(mut child: Child, point: &str) {
    let ended = tokio::time::timeout(Duration::from_secs(60), child.wait()).await;
    let status = ended.unwrap_or_else(|_| panic!("the Coder did not die at {point}")).unwrap();
    assert_eq!(status.code(), None, "{point}: killed, not ended");
}

fn program(site: &LocalSite, path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", site.directory.path()).kill_on_drop(true);
    command
}

fn agent_id(workspace: &Workspace) -> Uuid {
    workspace.latest_build.resources[0].agents[0].id
}

#[tokio::test]
async fn an_agent_that_outlives_a_killed_server_is_found_again() {
    let site = LocalSite::new();
    let server = Server::start(&site, &[]).await;
    let id = server.create("setup", "lives").await;
    let before = agent_id(&server.until(id, is_ready).await);
    let url = server.url.clone();
    server.kill().await;
    assert_eq!(site.runners().len(), 1);
    let server = Server::start(&site, &[]).await;
    assert_eq!(server.url, url, "the agent goes on reporting to the address it knows");
    let found = server.until(id, is_ready).await;
    assert_eq!((agent_id(&found), found.health.healthy, found.latest_build.build_number), (before, true, 1));
    assert_eq!(site.runners().len(), 1);
    server.kill().await;
}

#[tokio::test]
async fn an_agent_that_died_with_the_server_is_started_again() {
    let site = LocalSite::new();
    let server = Server::start(&site, &[]).await;
    let id = server.create("setup", "dies").await;
    let before = agent_id(&server.until(id, is_ready).await);
    server.kill().await;
    site.processes().into_iter().for_each(kill);
    let server = Server::start(&site, &[]).await;
    let again =
        server.until(id, |workspace| workspace.latest_build.build_number == 2 && is_ready(workspace)).await;
    let build = &again.latest_build;
    assert_eq!(
        (build.transition.as_str(), build.reason.as_str(), again.health.healthy),
        ("start", "autostart", true)
    );
    assert_ne!(agent_id(&again), before);
    assert_eq!(site.runners().len(), 1);
    server.kill().await;
}

#[tokio::test]
async fn an_agent_whose_port_another_program_has_taken_starts_again_and_reports_to_the_new_one() {
    let site = LocalSite::new();
    let server = Server::start(&site, &[]).await;
    let id = server.create("setup", "moves").await;
    let before = agent_id(&server.until(id, is_ready).await);
    let lost = server.url.clone();
    server.kill().await;
    let _stranger = std::net::TcpListener::bind(lost.trim_start_matches("http://")).unwrap();
    let server = Server::start(&site, &[]).await;
    let now = server.until(id, |now| now.latest_build.build_number == 3 && is_ready(now)).await;
    assert_eq!((agent_id(&now) != before, now.latest_build.reason.as_str()), (true, "autostart"));
    assert_eq!(told(&site, "CODER_AGENT_URL"), [format!("{}/", server.url)]);
    server.kill().await;
}

/// With what value of a variable each process of the agents was started.
fn told(site: &LocalSite, variable: &str) -> Vec<String> {
    let value = |pid: u32| {
        let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).ok()?;
        let mut entries = environment.split('\0');
        entries.find_map(|entry| entry.strip_prefix(variable)?.strip_prefix('=').map(str::to_owned))
    };
    site.processes().into_iter().filter_map(value).collect()
}

#[tokio::test]
async fn agents_keep_the_home_of_the_user_who_started_the_server() {
    let site = LocalSite::new();
    let server = Server::start(&site, &[]).await;
    let id = server.create("setup", "at-home").await;
    server.until(id, is_ready).await;
    assert_eq!(told(&site, "HOME"), [site.directory.path().display().to_string()]);
    server.kill().await;
}

/// A server that has no descriptors left finds nothing out, and must not take that for an answer.
#[tokio::test]
async fn agents_live_on_under_a_server_that_cannot_look_at_them() {
    let site = LocalSite::new();
    let server = Server::start(&site, &[]).await;
    let mut ids = Vec::new();
    for name in ["first", "second"] {
        ids.push(server.create("setup", name).await);
    }
    let mut agents = Vec::new();
    for id in &ids {
        agents.push(agent_id(&server.until(*id, is_ready).await));
    }
    let runners = site.runners();
    server.kill().await;
    // Some are too few to start at all, some just enough for everything.
    for limit in 12..18 {
        let script = format!("ulimit -n {limit}; exec \"$0\" local-coder --data-dir \"$1\"");
        let mut command = program(&site, Path::new("/bin/sh"));
        command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_fleet-mcp")).arg(site.data_dir());
        let mut poor = command.stderr(Stdio::null()).spawn().unwrap();
        // Long enough to start and to look; that nothing happens announces itself by nothing.
        let _ended = tokio::time::timeout(Duration::from_secs(2), poor.wait()).await;
        poor.kill().await.unwrap();
        assert_eq!(site.runners(), runners, "with {limit} descriptors");
    }
    let server = Server::start(&site, &[]).await;
    for (id, agent) in ids.iter().zip(agents) {
        let found = server.until(*id, |now| now.health.healthy).await;
        assert_eq!((agent_id(&found), found.latest_build.build_number), (agent, 1));
    }
    server.kill().await;
}

#[tokio::test]
async fn a_build_that_kills_cut_short_is_repeated_until_it_succeeds_or_really_fails() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = format!("repo = 'git://{}/nothing'", silent.local_addr().unwrap());
    let site = LocalSite::new();
    let server = Server::start(&site, &[("slow", &slow)]).await;
    let id = server.create("slow", "half").await;
    let mut connections = vec![silent.accept().await.unwrap()];
    server.kill().await;
    for _ in 0..2 {
        let server = Server::start(&site, &[]).await;
        connections.push(silent.accept().await.unwrap());
        let now = server.until(id, |now| now.latest_build.status == "starting").await.latest_build;
        assert_eq!((now.build_number, site.workspace_names()), (1, vec!["half".to_owned()]));
        server.kill().await;
    }
    drop((connections, silent));
    let server = Server::start(&site, &[]).await;
    let failed = server.until(id, is_over).await.latest_build;
    let error = failed.job.error.unwrap_or_default();
    assert_eq!((failed.status.as_str(), failed.build_number), ("failed", 1));
    assert!(error.starts_with("git could not clone git://"), "{error}");
    assert_eq!((site.workspace_names(), site.processes()), (Vec::new(), Vec::new()));
    server.kill().await;
}

#[tokio::test]
async fn processes_that_a_killed_agent_leaves_end_too() {
    let site = LocalSite::new();
    let local = site.start().await;
    let created = local.create(crate::harness::TEMPLATE, "busy", "hang").await.body;
    local.until(&created["id"], is_ready).await;
    eventually("the engine runs", async || !site.engines().is_empty()).await;
    let engines = site.engines();
    kill(site.runner());
    let is_left = |pid: &u32| site.processes().contains(pid);
    eventually("the engine has ended", async || !engines.iter().any(is_left)).await;
    local.coder.stop().await;
}

#[tokio::test]
async fn an_agent_that_ignores_every_plea_is_stopped_all_the_same() {
    let site = LocalSite::new();
    let local = site.start().await;
    let created = local.create(crate::harness::TEMPLATE, "stubborn", "fork\nhang").await.body;
    local.until(&created["id"], is_ready).await;
    site.has_deaf_engine().await;
    local.build(&created["id"], &json!({ "transition": "stop" })).await;
    assert_eq!(local.until(&created["id"], is_over).await.latest_build.status, "stopped");
    assert_eq!(site.processes(), Vec::<u32>::new());
    local.coder.stop().await;
}
