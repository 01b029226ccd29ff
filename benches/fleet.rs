//! Compares our reads with raw REST reads of the same Coder in the same run, as ratios.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::agents::ListAgents;
use fleet_mcp::coder::{Client, Deleted, WorkspaceQuery};
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::view::agent::{AgentDetail, AgentList};

use crate::harness::{
    CoderStub, Pace, Program, RunningFleet, client, eventually, fleet_options, list_all, operator, stub,
};
use crate::measure::{Extent, measure, median, ratio, worst};

const AGENTS: usize = 1_000;
const ROUNDS: usize = 40;

pub(crate) async fn run(extent: Extent) {
    let n_rounds = extent.of(ROUNDS, 1);
    let coder = stub(Pace::Held).await;
    coder.seed("agent", AGENTS);
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    let raw = client(coder.url(), &coder.token());
    let id = running.show("agent-500").await.unwrap().agent.workspace_id.unwrap().0;

    let raw_list = measure(n_rounds, Duration::ZERO, async || list_raw(&raw).await).await;
    let our_list = measure(n_rounds, Duration::ZERO, async || list_ours(&running).await).await;
    report("list of all 1,000 agents", &raw_list, &our_list);
    let raw_show =
        measure(n_rounds, Duration::ZERO, async || drop(raw.workspace(id, Deleted::Exclude).await.unwrap()))
            .await;
    let our_show = measure(n_rounds, Duration::ZERO, async || {
        drop(AgentDetail::from(&*running.show("agent-500").await.unwrap()));
    })
    .await;
    report("one agent", &raw_show, &our_show);
    drop(running);

    for n_agents in [10, AGENTS] {
        measure_lag(n_agents, n_rounds.min(10)).await;
    }
    measure_process(&coder).await;
}

/// How long a change in Coder takes to be seen, at the pace a server has by default.
async fn measure_lag(n_agents: usize, n_rounds: usize) {
    let coder = stub(Pace::Held).await;
    coder.seed("agent", n_agents);
    let options = FleetOptions { poll_interval: Duration::from_secs(1), ..fleet_options() };
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let running =
        RunningFleet::start_with(directory, client(coder.url(), &coder.token()), options).await.seen().await;
    let states = [("working", AgentStatus::Busy), ("complete", AgentStatus::Idle)];
    let mut turns = states.iter().cycle();
    let times = measure(n_rounds, Duration::ZERO, async || {
        let (state, status) = turns.next().unwrap();
        coder.post_app_status("agent-5", state, "so it is");
        running.becomes("agent-5", *status).await;
    })
    .await;
    println!("a change seen at {n_agents} agents: median {:?}, worst {:?}", median(&times), worst(&times));
}

/// The real program on a thousand agents: start to serving, and its resident memory once it has seen them.
async fn measure_process(coder: &CoderStub) {
    let program = Program::on(coder);
    let start = Instant::now();
    let server = program.serve().await;
    let serving = start.elapsed();
    let n_seen = async || program.json(&["--json", "status"]).await["counts"]["idle"].as_u64();
    eventually("all agents are seen", async || n_seen().await == Some(AGENTS as u64)).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id().unwrap())).unwrap();
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    println!("start to serving: {serving:?}; with {AGENTS} agents {resident}");
    server.terminate().await;
}

async fn list_raw(raw: &Client) {
    for page in 0..10 {
        let query = WorkspaceQuery {
            q: "owner:me".into(),
            limit: 100,
            offset: page * 100,
            metadata_keys: Vec::new(),
        };
        assert_eq!(raw.workspaces(&query).await.unwrap().workspaces.len(), 100);
    }
}

async fn list_ours(running: &RunningFleet) {
    for number in 1..=10 {
        let request = ListAgents { page: PageRequest::parse(number, 100).unwrap(), ..list_all() };
        let listed = running.fleet.agent_list(&operator(), request).await.unwrap();
        assert_eq!(AgentList::from(&listed).agents.len(), 100);
    }
}

fn report(what: &str, raw: &[Duration], ours: &[Duration]) {
    let (raw_median, our_median, our_worst) = (median(raw), median(ours), worst(ours));
    let ratio = ratio(ours, raw);
    println!(
        "{what}: raw REST {raw_median:?}, ours {our_median:?} (worst {our_worst:?}): {ratio:.1} times as fast"
    );
}
