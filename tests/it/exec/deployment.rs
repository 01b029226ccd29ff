//! Runs of a fleet on a real Coder: what holds on the embedded one holds there.

use std::sync::Arc;
use std::time::Duration;

use fleet_mcp::app::{Fleet, FleetOptions};
use fleet_mcp::coder::exec::Command;
use fleet_mcp::coder::{Client, Deleted};
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::id::AgentId;
use fleet_mcp::domain::run::{KEPT_OUTPUT, RunEnd, RunStream};
use fleet_mcp::store::Store;
use tempfile::TempDir;
use uuid::Uuid;

use super::fleet::{ended, everything, script, stubborn_canceled, written};
use super::{alive, every_byte};
use crate::contract::agent_id;
use crate::harness::{Live, RunningFleet, client, fleet_options, live};

/// A fleet on a real Coder with one idle agent.
struct Deployment {
    coder: Client,
    running: RunningFleet,
    name: String,
    agent: AgentId,
}

impl Deployment {
    async fn new(live: &Live) -> Self {
        let name = format!("runs-{}", &Uuid::new_v4().simple().to_string()[..12]);
        let running = fleet(live, Arc::new(tempfile::tempdir().unwrap())).await;
        running.create(&name).await.unwrap();
        running.becomes(&name, AgentStatus::Idle).await;
        running.rests(&name).await;
        let agent = running.fleet.board().now().by_name(&name).unwrap().agent.id;
        Self { coder: client(&live.url, &live.token), running, name, agent }
    }

    fn fleet(&self) -> &Fleet {
        &self.running.fleet
    }

    fn store(&self) -> &Store {
        &self.running.store
    }

    async fn restarted(self, live: &Live) -> Self {
        let running = fleet(live, self.running.stop().await).await;
        Self { running, ..self }
    }

    async fn delete(self) {
        self.running.delete(&self.name).await.unwrap();
        self.running.is_gone(&self.name).await;
        self.running.stop().await;
    }
}

/// One that stays below the number of requests that a real Coder grants.
async fn fleet(live: &Live, directory: Arc<TempDir>) -> RunningFleet {
    let options = FleetOptions { poll_interval: Duration::from_millis(500), ..fleet_options() };
    RunningFleet::start_with(directory, client(&live.url, &live.token), options).await.seen().await
}

#[tokio::test]
async fn runs_are_stored_whole_cut_at_the_limit_and_followed_past_a_restart() {
    let Some(live) = live() else { return };
    let home = Deployment::new(&live).await;
    let data = every_byte(3 << 20);
    let command = Command { stdin: data.clone(), ..script("cat; echo oops >&2; exit 7") };
    let id = home.fleet().test_run_start(home.agent, command).await.unwrap();
    let run = ended(home.store(), id).await;
    assert_eq!(run.state.end(), Some(&RunEnd::Exited { code: 7 }));
    assert!(everything(home.store(), &run, RunStream::Stdout).await == data);
    assert_eq!(everything(home.store(), &run, RunStream::Stderr).await, b"oops\n");

    let command = script("head -c 12000000 /dev/zero; echo end >&2");
    let id = home.fleet().test_run_start(home.agent, command).await.unwrap();
    let run = ended(home.store(), id).await;
    assert_eq!((run.stdout, run.stderr), (12_000_000, 4));
    assert_eq!(everything(home.store(), &run, RunStream::Stdout).await.len() as u64, KEPT_OUTPUT);

    let id =
        home.fleet().test_run_start(home.agent, script("echo before; sleep 4; echo after")).await.unwrap();
    written(home.store(), id, 7).await;
    let home = home.restarted(&live).await;
    let run = ended(home.store(), id).await;
    assert_eq!(run.state.end(), Some(&RunEnd::Exited { code: 0 }));
    assert_eq!(everything(home.store(), &run, RunStream::Stdout).await, b"before\nafter\n");
    home.delete().await;
}

#[tokio::test]
async fn runs_end_when_they_are_canceled_and_with_their_workspace() {
    let Some(live) = live() else { return };
    let home = Deployment::new(&live).await;
    let (_run, said) = stubborn_canceled(&home.running, home.agent).await;
    let pids: Vec<&str> = said.lines().filter(|line| *line != "ready").collect();
    let workspace = home.coder.workspace_by_name("me", &home.name, Deleted::Exclude).await.unwrap();
    assert_eq!(alive(&home.coder, agent_id(&workspace), &pids).await, "");

    let id = home.fleet().test_run_start(home.agent, script("echo hello; sleep 300")).await.unwrap();
    written(home.store(), id, 6).await;
    home.running.stop_agent(&home.name).await.unwrap();
    let run = ended(home.store(), id).await;
    let Some(RunEnd::Lost { reason }) = run.state.end() else { panic!("{run:?}") };
    assert!(
        ["its workspace was stopped", "it was terminated from outside, possibly by a stop of its workspace"]
            .contains(&reason.as_str()),
        "{reason}"
    );
    assert_eq!(everything(home.store(), &run, RunStream::Stdout).await, b"hello\n");
    home.running.becomes(&home.name, AgentStatus::Stopped).await;
    home.delete().await;
}
