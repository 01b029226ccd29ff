//! A workspace with the least that is needed: no setsid, no grep, another shell.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use fleet_mcp::coder::Client;
use fleet_mcp::coder::exec::{Exit, Offsets, RunEnd, RunEvent, RunState};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::process::Child;
use uuid::Uuid;

use super::{address, alive, every_byte, output, sh};
use crate::contract::{Subject, agent_id, on_live};
use crate::harness::{LocalSite, client, eventually, is_ready, live, skipped, watched};

/// What a workspace must have; `git` is for the embedded Coder itself.
const TOOLS: [&str; 9] = ["stty", "mkdir", "cat", "tail", "rm", "sleep", "git", "true", "head"];

/// An embedded Coder as a process of its own, whose workspaces find only some programs.
struct PoorCoder {
    site: LocalSite,
    _child: Child,
    client: Client,
    agent: Uuid,
}

impl PoorCoder {
    async fn start(shell: &str, more: &[&str]) -> Self {
        let site = LocalSite::new();
        let path = site.directory.path().join("bin");
        fill(&path, shell, more);
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fleet-mcp"));
        command.arg("local-coder").arg("--data-dir").arg(site.data_dir()).env_clear();
        command.env("PATH", &path).env("HOME", site.directory.path()).kill_on_drop(true);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let file = site.data_dir().join("coder.json");
        eventually("the Coder announces itself", async || file.exists()).await;
        let file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let token = std::fs::read_to_string(site.data_dir().join("coder.token")).unwrap();
        let url = file["url"].as_str().unwrap().trim_end_matches('/').to_owned();
        let api = crate::harness::Api::new(&url, &token);
        let created = api.workspace_create("setup", "poor").await;
        let client = client(&url, &token);
        let id = created.body["id"].as_str().unwrap().parse().unwrap();
        let agent = agent_id(&watched(&api, id, is_ready).await);
        Self { site, _child: child, client, agent }
    }

    async fn serves(&self) {
        serves(&self.client, self.agent).await;
    }
}

fn fill(path: &Path, shell: &str, more: &[&str]) {
    std::fs::create_dir_all(path).unwrap();
    for tool in TOOLS.iter().chain(more) {
        symlink(find(tool).unwrap(), path.join(tool)).unwrap();
    }
    symlink(find(shell).unwrap(), path.join("sh")).unwrap();
}

fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.exists())
}

/// What every workspace must be able to do.
async fn serves(client: &Client, agent: Uuid) {
    let got = client.exec(agent, &sh("echo out; echo err >&2; exit 3")).await.unwrap();
    assert_eq!(got, output(Exit::Code(3), "out\n", "err\n"));
    let mut command = sh("cat");
    command.stdin = every_byte(200_000);
    assert!(client.exec(agent, &command).await.unwrap().stdout == command.stdin);
    let got = client.exec(agent, &sh("kill -TERM $$")).await.unwrap();
    assert_eq!(got.exit, Exit::Signal(15));

    let at = address(agent);
    let script = "trap '' TERM; sleep 300 & echo $!; echo $$; while :; do sleep 0.1; done";
    client.run_start(agent, at.run, &sh(script)).await.unwrap();
    let mut said = String::new();
    let mut events = Box::pin(client.run_follow(&at, Offsets::default()));
    while said.lines().count() < 2 {
        let RunEvent::Output { bytes, .. } = events.next().await.unwrap().unwrap() else { panic!("{said}") };
        said.push_str(&String::from_utf8_lossy(&bytes));
    }
    // The terminals that started and watched it are gone; it goes on until it is told to end.
    drop(events);
    assert_eq!(client.run_start(agent, at.run, &sh(script)).await.unwrap(), RunState::Running);
    assert_eq!(client.run_cancel(&at).await.unwrap(), RunState::Ended(RunEnd::Canceled));
    let pids: Vec<&str> = said.lines().collect();
    assert_eq!(alive(client, agent, &pids).await, "");
}

#[tokio::test]
async fn a_workspace_without_setsid_and_grep_serves_as_well() {
    let poor = PoorCoder::start("dash", &[]).await;
    poor.serves().await;
    assert!(poor.site.workspace("poor").join("runs").is_dir());
}

#[tokio::test]
async fn bash_as_the_shell_serves_as_well_with_and_without_setsid() {
    PoorCoder::start("bash", &[]).await.serves().await;
    PoorCoder::start("bash", &["setsid", "grep"]).await.serves().await;
}

#[tokio::test]
async fn busybox_as_the_shell_serves_as_well() {
    if find("busybox").is_none() {
        skipped("busybox is not installed");
        return;
    }
    PoorCoder::start("busybox", &["setsid", "grep"]).await.serves().await;
}

#[tokio::test]
async fn a_poor_workspace_of_a_real_coder_serves_as_well() {
    let Some(live) = live() else { return };
    let Some(template) = &live.poor_template else {
        skipped("set FLEET_LIVE_CODER_POOR_TEMPLATE to a template whose workspaces find the least programs");
        return;
    };
    on_live(&live, template, async |subject: &Subject| {
        serves(&subject.client, agent_id(&subject.create_ready().await)).await;
    })
    .await;
}
