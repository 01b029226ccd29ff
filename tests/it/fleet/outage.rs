//! Coder away, slow, or refusing our token: reads go on, changes wait, recovery comes by itself.

use fleet_mcp::app::error::Code;
use fleet_mcp::domain::agent::AgentStatus;

use crate::harness::{FaultProxy, Pace, RunningFleet, eventually, list_all, operator, stub};

#[tokio::test]
async fn before_coder_was_ever_seen_everything_says_so_and_then_works() {
    let coder = stub(Pace::Instant).await;
    let mut proxy = FaultProxy::start(coder.url()).await;
    proxy.down().await;
    let running = RunningFleet::start(&proxy.url(), &coder.token()).await;
    let list = running.fleet.agent_list(&operator(), list_all()).await.unwrap_err();
    let create = running.create("one").await.unwrap_err();
    let show = running.show("one").await.unwrap_err();
    assert_eq!([list.code(), create.code(), show.code()], [Code::CoderUnavailable; 3]);
    proxy.up().await;
    let running = running.seen().await;
    running.create("one").await.unwrap();
    running.becomes("one", AgentStatus::Idle).await;
}

#[tokio::test]
async fn while_coder_is_away_reads_serve_the_last_state_and_changes_are_done_later() {
    let coder = stub(Pace::Instant).await;
    let mut proxy = FaultProxy::start(coder.url()).await;
    let running = RunningFleet::start(&proxy.url(), &coder.token()).await.seen().await;
    running.create("one").await.unwrap();
    running.becomes("one", AgentStatus::Idle).await;
    proxy.down().await;
    eventually("the outage is noticed", async || !running.fleet.health().now().is_reachable()).await;
    let listed = running.fleet.agent_list(&operator(), list_all()).await.unwrap();
    assert_eq!(listed.page.items.len(), 1);
    let created = running.create("two").await.unwrap();
    assert_eq!(created.agent.agent.sighting.status, AgentStatus::Pending);
    assert!(running.stop_agent("one").await.unwrap().operation.is_some());
    proxy.up().await;
    running.becomes("two", AgentStatus::Idle).await;
    running.becomes("one", AgentStatus::Stopped).await;
}

#[tokio::test]
async fn a_refused_token_stops_all_calls_but_a_rare_look_and_is_told_once() {
    let coder = stub(Pace::Instant).await;
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    coder.token_rotate();
    eventually("the refusal is noticed", async || running.fleet.health().now().refused.is_some()).await;
    coder.reset_calls();
    let created = running.create("one").await.unwrap();
    assert_eq!(created.agent.agent.sighting.status, AgentStatus::Pending);
    let calls: usize = coder.calls().values().sum();
    assert!(calls <= 2, "{calls} calls with a token that is refused");
}

#[tokio::test]
async fn a_restart_of_ours_takes_up_what_was_accepted() {
    let coder = stub(Pace::Held).await;
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    running.create("one").await.unwrap();
    let directory = running.stop().await;
    coder.set_pace(Pace::PerRead);
    let running = RunningFleet::start_in(directory, coder.url(), &coder.token()).await;
    running.becomes("one", AgentStatus::Idle).await;
    assert_eq!(coder.workspaces().len(), 1);
}
