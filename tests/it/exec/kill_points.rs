//! The control plane killed at any point of a run: the next one goes on, nothing is lost, nothing runs twice.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use fleet_mcp::app::Fleet;
use fleet_mcp::app::catalog::{Catalog, CatalogDirs};
use fleet_mcp::domain::id::RunId;
use fleet_mcp::domain::run::{RunEnd, RunStream};
use fleet_mcp::store::{Store, StoreOptions};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_util::task::TaskTracker;

use super::fleet::{Home, everything, script};
use crate::harness::{RunningFleet, RunningLocal, client, eventually, fleet_options};

/// Notes that it ran, and then writes a line whenever it is let: `$1` is the folder of its signs.
const SCRIPT: &str = r#"echo ran >>"$1/ran"; n=0
    while [ $n -lt 5 ]; do n=$((n + 1)); echo "line $n"; echo "line $n" >&2; echo $n >>"$1/said"
    while ! [ -e "$1/go" ] && ! [ -e "$1/go$n" ]; do sleep 0.02; done; done; exit 9"#;
const LINES: &[u8] = b"line 1\nline 2\nline 3\nline 4\nline 5\n";

/// A folder that the run, the killed process and the test share.
struct Signs(PathBuf);

impl Signs {
    fn lines(&self, name: &str) -> usize {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default().lines().count()
    }

    fn give(&self, name: &str) {
        std::fs::write(self.0.join(name), "").unwrap();
    }

    fn run(&self) -> Option<RunId> {
        std::fs::read_to_string(self.0.join("run")).ok()?.parse().ok().map(RunId)
    }
}

/// The process that is killed: a control plane that starts one run and follows it.
#[tokio::test]
#[ignore = "other tests start it as a process of its own"]
async fn a_control_plane() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let (directory, signs) = (PathBuf::from(variable("DIRECTORY")), PathBuf::from(variable("SIGNS")));
    let options = StoreOptions { path: directory.join("fleet.db"), backups: directory.join("backups") };
    let store = Store::open(&options).await.unwrap();
    let coder = client(&variable("URL"), &variable("TOKEN"));
    let catalog = Catalog::open(CatalogDirs::default());
    let fleet = Fleet::open(store, coder, catalog, fleet_options()).await.unwrap();
    fleet.start(&TaskTracker::new());
    eventually("the fleet has seen Coder", async || fleet.board().now().observed_at.is_some()).await;
    let agent = fleet.board().now().by_name("one").unwrap().agent.id;
    let mut command = script(SCRIPT);
    command.argv.extend(["sh".to_owned(), signs.display().to_string()]);
    let id = fleet.test_run_start(agent, command).await.unwrap();
    std::fs::write(signs.join("fresh"), id.to_string()).unwrap();
    std::fs::rename(signs.join("fresh"), signs.join("run")).unwrap();
    std::future::pending::<()>().await;
}

fn spawn(local: &RunningLocal, directory: &TempDir, signs: &Path, kill_point: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "exec::kill_points::a_control_plane", "--ignored", "--nocapture"]);
    command.env("DIRECTORY", directory.path()).env("SIGNS", signs).env("FLEET_KILL_POINT", kill_point);
    command.env("URL", &local.url).env("TOKEN", &local.token);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Lets a control plane run until it is killed, then goes on with another one and looks at what came of the run.
async fn killed(kill_point: &str, when: impl AsyncFnOnce(&Signs, &mut Child)) -> (Option<RunEnd>, usize) {
    let Home { site, local, running, .. } = Home::new().await;
    let directory: Arc<TempDir> = running.stop().await;
    let signs = Signs(site.directory.path().join("signs"));
    std::fs::create_dir_all(&signs.0).unwrap();
    let mut child = spawn(&local, &directory, &signs.0, kill_point);
    when(&signs, &mut child).await;
    child.kill().await.ok();

    let next = RunningFleet::start_in(directory, &local.url, &local.token).await;
    signs.give("go");
    let known = next.store.runs_open().await.unwrap();
    assert_eq!(known.len(), 1);
    let id = known[0].id;
    assert!(signs.run().is_none_or(|told| told == id));
    let known = async || next.store.run_by_id(id).await.unwrap().unwrap();
    eventually("the run is over and cleared", async || known().await.is_cleared).await;
    let run = known().await;
    if run.state.end() == Some(&RunEnd::Exited { code: 9 }) {
        assert_eq!(everything(&next.store, &run, RunStream::Stdout).await, LINES);
        assert_eq!(everything(&next.store, &run, RunStream::Stderr).await, LINES);
    }
    let ran = signs.lines("ran");
    next.stop().await;
    local.coder.stop().await;
    (run.state.end().cloned(), ran)
}

fn whole() -> (Option<RunEnd>, usize) {
    (Some(RunEnd::Exited { code: 9 }), 1)
}

#[tokio::test]
async fn killed_in_the_middle_of_a_run_the_next_one_follows_it_on() {
    let outcome = killed("", async |signs: &Signs, _: &mut Child| {
        signs.give("go1");
        signs.give("go2");
        eventually("it has said three lines", async || signs.lines("said") == 3).await;
    })
    .await;
    assert_eq!(outcome, whole());
}

#[tokio::test]
async fn killed_as_soon_as_a_run_is_accepted_it_ran_once_or_not_at_all() {
    let outcome = killed("", async |signs: &Signs, _: &mut Child| {
        eventually("the run is accepted", async || signs.run().is_some()).await;
    })
    .await;
    let never = RunEnd::Unstarted;
    assert!([whole(), (Some(never), 0)].contains(&outcome), "{outcome:?}");
}

#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn killed_at_each_step_of_a_start_it_ran_once_or_not_at_all() {
    let never = RunEnd::Unstarted;
    assert_eq!(killed("run.accepted", dies).await, (Some(never), 0));
    assert_eq!(killed("run.sent", dies).await, whole());
    assert_eq!(killed("run.started", dies).await, whole());
    assert_eq!(killed("run.ended", dies_after_all).await, whole());
}

#[cfg(feature = "test-hooks")]
async fn dies(_: &Signs, child: &mut Child) {
    child.wait().await.unwrap();
}

#[cfg(feature = "test-hooks")]
async fn dies_after_all(signs: &Signs, child: &mut Child) {
    signs.give("go");
    child.wait().await.unwrap();
}
