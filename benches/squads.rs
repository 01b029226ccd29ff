//! Compares squads with plain commands in the same workspace and the same run: what a member costs beyond its command.

use std::sync::Arc;
use std::time::Duration;

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
use uuid::Uuid;

use crate::harness::{LocalSite, RunningFleet, client, fleet_options, operator, project};
use crate::measure::{Extent, measure, median, ratio};

pub(crate) async fn run(extent: Extent) {
    let (sizes, n_rounds): (&[usize], usize) = extent.of((&[1, 10, 50], 5), (&[1], 1));
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
        let raw = measure(n_rounds, Duration::ZERO, async || plain(&coder, agent, *n_members).await).await;
        let ours = measure(n_rounds, Duration::ZERO, async || squad(&running, *n_members).await).await;
        report(*n_members, &raw, &ours);
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

async fn plain(coder: &Client, agent: Uuid, n_commands: usize) {
    let command = Command::new(["echo", "hi"]);
    let outputs = join_all((0..n_commands).map(|_| coder.exec(agent, &command))).await;
    assert!(outputs.into_iter().all(|output| output.unwrap().exit == Exit::Code(0)));
}

async fn squad(running: &RunningFleet, n_members: usize) {
    let member = NewMember {
        role: "coder".to_owned(),
        task: "say hi".to_owned(),
        cwd: None,
        chat: None,
        agent: Some("one".to_owned()),
    };
    let request = StartSquad { members: vec![member; n_members], metadata: None, request: None };
    let caller = operator();
    let id = running.fleet.squad_start(&caller, request).await.unwrap();
    let mut wait = running.fleet.squad_wait(&caller, id);
    while wait.next().await.unwrap().is_some() {}
    let shown = running.fleet.squad_show(&caller, id, 10).await.unwrap();
    assert!(shown.squad.members.iter().all(|member| member.status() == MemberStatus::Completed), "{shown:?}");
}

fn report(n_members: usize, raw: &[Duration], ours: &[Duration]) {
    let (raw_median, our_median, ratio) = (median(raw), median(ours), ratio(raw, ours));
    let each = our_median.saturating_sub(raw_median) / u32::try_from(n_members).unwrap();
    println!(
        "{n_members} members: plain exec {raw_median:?}, squad {our_median:?}: {ratio:.1} times, {each:?} more for each"
    );
}
