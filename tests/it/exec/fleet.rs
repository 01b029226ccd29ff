//! Runs of a fleet: recorded before they begin, stored as they go, over when their workspace is.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use fleet_mcp::app::error::Error;
use fleet_mcp::app::{Fleet, FleetOptions};
use fleet_mcp::coder::Deleted;
use fleet_mcp::coder::exec::Command;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::id::{AgentId, RunId};
use fleet_mcp::domain::run::{KEPT_OUTPUT, Run, RunChunk, RunEnd, RunState, RunStream};
use fleet_mcp::store::Store;

use super::{STUBBORN, alive, every_byte, sh};
use crate::contract::agent_id;
use crate::harness::{
    LocalSite, Pace, RunningFleet, RunningLocal, Scene, eventually, fleet_options, project,
};

pub(super) const LONG: Duration = Duration::from_secs(120);

/// A fleet on an embedded Coder with one idle agent.
pub(super) struct Home {
    pub(super) site: LocalSite,
    pub(super) local: RunningLocal,
    pub(super) running: RunningFleet,
    pub(super) agent: AgentId,
}

impl Home {
    pub(super) async fn new() -> Self {
        Self::with_project("").await
    }

    /// With these lines in the project's file.
    pub(super) async fn with_project(lines: &str) -> Self {
        Self::with_options(lines, fleet_options()).await
    }

    /// The same, and agents are given what they need to call back.
    pub(super) async fn with_callback(lines: &str) -> Self {
        let callback_url = Some("http://127.0.0.1:9".to_owned());
        Self::with_options(lines, FleetOptions { callback_url, ..fleet_options() }).await
    }

    async fn with_options(lines: &str, options: FleetOptions) -> Self {
        let site = LocalSite::new().project(project("setup", None));
        let projects = site.directory.path().join("projects");
        std::fs::create_dir_all(&projects).unwrap();
        std::fs::write(projects.join("setup.toml"), lines).unwrap();
        let local = site.start().await;
        let running = RunningFleet::start_with_projects((&local.url, &local.token), projects, options)
            .await
            .seen()
            .await;
        running.create("one").await.unwrap();
        running.becomes("one", AgentStatus::Idle).await;
        let agent = running.fleet.board().now().by_name("one").unwrap().agent.id;
        Self { site, local, running, agent }
    }

    pub(super) fn fleet(&self) -> &Fleet {
        &self.running.fleet
    }

    pub(super) fn store(&self) -> &Store {
        &self.running.store
    }

    /// As after a clean stop of the server and its next start.
    async fn restarted(self) -> Self {
        let Self { site, local, running, agent } = self;
        let directory = running.stop().await;
        let running = RunningFleet::start_in(directory, &local.url, &local.token).await;
        Self { site, local, running, agent }
    }

    pub(super) async fn stop(self) {
        self.running.stop().await;
        self.local.coder.stop().await;
    }

    fn runs_in_workspace(&self) -> Vec<std::path::PathBuf> {
        let runs = std::fs::read_dir(self.site.workspace("one").join("runs")).unwrap();
        runs.map(|entry| entry.unwrap().path()).filter(|run| run.join("out").exists()).collect()
    }
}

/// A command of a run that has time enough.
pub(super) fn script(text: &str) -> Command {
    Command { timeout: LONG, ..sh(text) }
}

pub(super) async fn everything(store: &Store, run: &Run, stream: RunStream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let page = store.run_output(run.id, stream, all.len() as u64, 300_000).await.unwrap();
        if page.bytes.is_empty() {
            return all;
        }
        all.extend(page.bytes);
    }
}

pub(super) async fn written(store: &Store, id: RunId, bytes: u64) -> Run {
    seen(store, id, |run| run.stdout >= bytes).await
}

pub(super) async fn ended(store: &Store, id: RunId) -> Run {
    seen(store, id, Run::is_ended).await
}

async fn seen(store: &Store, id: RunId, is_it: impl Fn(&Run) -> bool) -> Run {
    let mut seen = None;
    eventually("the run is there", async || {
        seen = store.run_by_id(id).await.unwrap().filter(&is_it);
        seen.is_some()
    })
    .await;
    seen.unwrap()
}

#[tokio::test]
async fn a_run_is_stored_whole_and_then_forgotten_by_its_workspace() {
    let home = Home::new().await;
    let data = every_byte(3 << 20);
    let command = Command { stdin: data.clone(), ..script("cat; echo oops >&2; exit 7") };
    let id = home.fleet().test_run_start(home.agent, command).await.unwrap();
    let run = ended(home.store(), id).await;
    let expected = Run {
        state: run.state.clone(),
        stdout: 3 << 20,
        stderr: 5,
        is_cleared: run.is_cleared,
        ..run.clone()
    };
    assert_eq!((&run, run.state.end()), (&expected, Some(&RunEnd::Exited { code: 7 })));
    assert!(everything(home.store(), &run, RunStream::Stdout).await == data);
    assert_eq!(everything(home.store(), &run, RunStream::Stderr).await, b"oops\n");
    eventually("the workspace forgets it", async || {
        home.store().run_by_id(id).await.unwrap().unwrap().is_cleared && home.runs_in_workspace().is_empty()
    })
    .await;
    home.stop().await;
}

#[tokio::test]
async fn of_a_run_that_writes_too_much_the_beginning_is_kept_and_the_rest_counted() {
    let home = Home::new().await;
    let id = home
        .fleet()
        .test_run_start(home.agent, script("head -c 12000000 /dev/zero; echo end >&2"))
        .await
        .unwrap();
    let run = ended(home.store(), id).await;
    assert_eq!((run.stdout, run.stderr), (12_000_000, 4));
    let kept = everything(home.store(), &run, RunStream::Stdout).await;
    assert!(kept.len() as u64 == KEPT_OUTPUT && kept.iter().all(|byte| *byte == 0));
    let page = home.store().run_output(id, RunStream::Stdout, KEPT_OUTPUT - 2, 100).await.unwrap();
    assert_eq!((page.bytes, page.kept, page.written), (vec![0, 0], KEPT_OUTPUT, 12_000_000));
    home.stop().await;
}

/// Numbered lines, then so many bytes that the disk must not hold them all.
const FLOOD: &str = "n=0; while [ $n -lt 1000 ]; do echo $n; n=$((n + 1)); done; head -c 60000000 /dev/zero";

#[tokio::test]
async fn a_flood_takes_little_of_the_disk_and_is_counted_to_its_last_byte() {
    let home = Home::new().await;
    let marker = home.site.directory.path().join("go");
    let text = format!("{FLOOD}; echo end >&2; while ! [ -e {} ]; do sleep 0.05; done", marker.display());
    let id = home.fleet().test_run_start(home.agent, script(&text)).await.unwrap();
    seen(home.store(), id, |run| run.stderr == 4).await;
    let held = home.runs_in_workspace().into_iter().map(|run| run.join("out").metadata().unwrap().len());
    let held: Vec<u64> = held.collect();
    assert!(held.len() == 1 && (KEPT_OUTPUT..=2 * KEPT_OUTPUT).contains(&held[0]), "{held:?}");
    std::fs::write(&marker, "").unwrap();
    let run = ended(home.store(), id).await;
    let lines: String = (0..1_000).map(|n| format!("{n}\n")).collect();
    assert_eq!((run.stdout, run.stderr), (60_000_000 + lines.len() as u64, 4));
    let kept = everything(home.store(), &run, RunStream::Stdout).await;
    assert!(kept.len() as u64 == KEPT_OUTPUT && kept.starts_with(lines.as_bytes()));
    home.stop().await;
}

/// Cancels a run that resists once it runs; gives it as it ended, and what it said of its processes.
pub(super) async fn stubborn_canceled(running: &RunningFleet, agent: AgentId) -> (Run, String) {
    let (fleet, store) = (&running.fleet, &running.store);
    let id = fleet.test_run_start(agent, script(STUBBORN)).await.unwrap();
    let said = loop {
        let run = written(store, id, 6).await;
        let said = String::from_utf8(everything(store, &run, RunStream::Stdout).await).unwrap();
        if said.contains("ready") {
            break said;
        }
    };
    fleet.test_run_cancel(id).await.unwrap();
    let run = ended(store, id).await;
    assert_eq!(run.state.end(), Some(&RunEnd::Canceled));
    (run, said)
}

#[tokio::test]
async fn a_canceled_run_ends_with_all_its_processes() {
    let home = Home::new().await;
    let (run, said) = stubborn_canceled(&home.running, home.agent).await;
    let pids: Vec<&str> = said.lines().filter(|line| *line != "ready").collect();
    let client = home.local.client();
    let workspace = client.workspace_by_name("me", "one", Deleted::Exclude).await.unwrap();
    assert_eq!(alive(&client, agent_id(&workspace), &pids).await, "");
    home.fleet().test_run_cancel(run.id).await.unwrap();
    assert_eq!(ended(home.store(), run.id).await.state, run.state);
    home.stop().await;
}

#[tokio::test]
async fn a_run_outlives_the_server_and_is_followed_on_by_the_next_one() {
    let home = Home::new().await;
    let marker = home.site.directory.path().join("go");
    let text = format!("echo before; while ! [ -e {} ]; do sleep 0.05; done; echo after", marker.display());
    let id = home.fleet().test_run_start(home.agent, script(&text)).await.unwrap();
    written(home.store(), id, 7).await;
    let home = home.restarted().await;
    std::fs::write(&marker, "").unwrap();
    let run = ended(home.store(), id).await;
    assert_eq!(run.state.end(), Some(&RunEnd::Exited { code: 0 }));
    assert_eq!(everything(home.store(), &run, RunStream::Stdout).await, b"before\nafter\n");
    home.stop().await;
}

#[tokio::test]
async fn a_run_is_lost_with_its_workspace_and_says_so() {
    let home = Home::new().await;
    let id = home.fleet().test_run_start(home.agent, script("echo hello; sleep 300")).await.unwrap();
    written(home.store(), id, 6).await;
    home.running.stop_agent("one").await.unwrap();
    let run = ended(home.store(), id).await;
    let Some(RunEnd::Lost { reason }) = run.state.end() else { panic!("{run:?}") };
    assert!(
        ["its workspace was stopped", "it was terminated from outside, possibly by a stop of its workspace"]
            .contains(&reason.as_str()),
        "{reason}"
    );
    assert_eq!(everything(home.store(), &run, RunStream::Stdout).await, b"hello\n");
    home.running.becomes("one", AgentStatus::Stopped).await;
    let refused = home.fleet().test_run_start(home.agent, script("true")).await.unwrap_err();
    assert!(matches!(refused, Error::NotReady { .. }), "{refused}");
    home.stop().await;
}

#[tokio::test]
async fn a_run_that_cannot_start_fails_with_the_reason() {
    let home = Home::new().await;
    let runs = home.site.workspace("one").join("runs");
    std::fs::remove_dir_all(&runs).unwrap();
    std::fs::write(&runs, "in the way").unwrap();
    // Without that directory the runs go below HOME, which is this user's own.
    let refused = home.fleet().test_run_start(home.agent, Command::new([""; 0])).await.unwrap_err();
    assert_eq!(refused.to_string(), "the command cannot be run: there is no program");
    let unknown = home.fleet().test_run_cancel(RunId::fresh()).await.unwrap_err();
    assert!(matches!(unknown, Error::RunNotFound(_)), "{unknown}");
    home.stop().await;
}

#[tokio::test]
async fn output_of_a_run_is_removed_a_month_after_its_end() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    let agent_id = scene.running.fleet.board().now().by_name("one").unwrap().agent.id;
    let mut ended = Vec::new();
    for days in [29, 31] {
        let at = Utc::now() - TimeDelta::days(days);
        let run = Run {
            id: RunId::fresh(),
            agent_id,
            generation: 1,
            purpose: "test".to_owned(),
            argv: vec!["true".to_owned()],
            container: None,
            timeout: LONG,
            state: RunState::Running,
            stdout: 0,
            stderr: 0,
            cancel: None,
            engine: None,
            created_at: at,
            is_cleared: true,
        };
        let wrote = RunChunk { stream: RunStream::Stdout, offset: 0, bytes: b"words".to_vec() };
        let store = &scene.running.store;
        store.run_accept(&run).await.unwrap();
        store.run_append(run.id, &[wrote]).await.unwrap();
        store.run_end(run.id, &RunEnd::Exited { code: 0 }, at).await.unwrap();
        ended.push(run.id);
    }
    let Scene { coder, running } = scene;
    let running = RunningFleet::start_in(running.stop().await, coder.url(), &coder.token()).await;
    let kept = async |run: RunId| {
        let output = running.store.run_output(run, RunStream::Stdout, 0, 10).await.unwrap();
        (output.bytes, output.written)
    };
    eventually("the old output is gone", async || kept(ended[1]).await == (Vec::new(), 5)).await;
    assert_eq!(kept(ended[0]).await, (b"words".to_vec(), 5));
}
