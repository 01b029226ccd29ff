//! Compares squads with plain commands in the same workspace and the same run: what a member costs beyond its command.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that fails should stop at once"
)]
#![expect(clippy::print_stdout, reason = "the figures are its result")]
#![expect(dead_code, unused_imports, reason = "the harness has more than a benchmark needs")]

#[path = "../tests/it/harness/mod.rs"]
mod harness;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::squads::{NewMember, StartSquad};
use fleet_mcp::coder::Client;
use fleet_mcp::coder::exec::{Command, Exit};
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::squad::MemberStatus;
use fleet_mcp::engine::EngineWord;
use fleet_mcp::engine::commands::{CommandEngines, Templates};
use fleet_mcp::engine::template::Values;
use futures_util::future::join_all;
use harness::{LocalSite, RunningFleet, client, fleet_options, operator, project};
use uuid::Uuid;

const LONG: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() {
    // `cargo test --benches` passes a flag of its own: then one quick round shows that it still runs.
    let is_whole = std::env::args().any(|argument| argument == "--bench");
    let (sizes, n_rounds): (&[usize], usize) = if is_whole { (&[1, 10, 50], 5) } else { (&[1], 1) };
    let site = LocalSite::new().project(project("setup", None));
    let local = site.start().await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let coder = client(&local.url, &local.token);
    let running = RunningFleet::start_with(directory, coder.clone(), options()).await.seen().await;
    running.create("one").await.unwrap();
    running.becomes("one", AgentStatus::Idle).await;
    let workspace = coder.workspace_by_name("me", "one", fleet_mcp::coder::Deleted::Exclude).await.unwrap();
    let agent = workspace.latest_build.resources[0].agents[0].id;
    plain(&coder, agent, 1).await;
    squad(&running, 1).await;
    for n_members in sizes {
        let (mut raw, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..n_rounds {
            raw.push(plain(&coder, agent, *n_members).await);
            ours.push(squad(&running, *n_members).await);
        }
        report(*n_members, raw, ours);
    }
    running.stop().await;
    local.coder.stop().await;
}

fn options() -> FleetOptions {
    let templates = Templates { run: "echo\nhi\n", create_chat: None };
    let mut options = fleet_options();
    options.engine.commands = CommandEngines::new(Some(templates), &Values::new()).unwrap();
    options.engine.word = EngineWord::Custom;
    options
}

async fn plain(coder: &Client, agent: Uuid, n_commands: usize) -> Duration {
    let start = Instant::now();
    let command = Command::new(["echo", "hi"]);
    let outputs = join_all((0..n_commands).map(|_| coder.exec(agent, &command))).await;
    assert!(outputs.into_iter().all(|output| output.unwrap().exit == Exit::Code(0)));
    start.elapsed()
}

async fn squad(running: &RunningFleet, n_members: usize) -> Duration {
    let member = NewMember {
        role: "coder".to_owned(),
        task: "say hi".to_owned(),
        cwd: None,
        chat: None,
        agent: Some("one".to_owned()),
    };
    let request = StartSquad { members: vec![member; n_members], metadata: None, request: None };
    let start = Instant::now();
    let id = running.fleet.squad_start(&operator(), request).await.unwrap();
    running.fleet.squad_await_end(&operator(), id, LONG).await.unwrap();
    let elapsed = start.elapsed();
    let shown = running.fleet.squad_show(&operator(), id, 10).await.unwrap();
    assert!(shown.squad.members.iter().all(|member| member.status() == MemberStatus::Completed), "{shown:?}");
    elapsed
}

fn report(n_members: usize, mut raw: Vec<Duration>, mut ours: Vec<Duration>) {
    raw.sort();
    ours.sort();
    let (raw, ours) = (raw[raw.len() / 2], ours[ours.len() / 2]);
    let ratio = ours.as_secs_f64() / raw.as_secs_f64().max(f64::EPSILON);
    let each = ours.saturating_sub(raw) / u32::try_from(n_members).unwrap();
    println!(
        "{n_members} members: plain exec {raw:?}, squad {ours:?}: {ratio:.1} times, {each:?} more for each"
    );
}
