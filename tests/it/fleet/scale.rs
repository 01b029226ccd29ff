//! A fleet of a thousand: few calls per refresh, changes seen, pages complete.

use fleet_mcp::app::agents::ListAgents;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::page::PageRequest;

use crate::harness::{Pace, RunningFleet, eventually, list_all, operator, stub};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_of_a_thousand_agents_takes_at_most_twenty_calls() {
    let coder = stub(Pace::Held).await;
    coder.seed("agent", 1_000);
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    assert_eq!(running.fleet.board().now().agents.len(), 1_000);
    coder.reset_calls();
    let before = running.fleet.board().now().observed_at;
    coder.post_app_status("agent-500", "working", "on it");
    running.becomes("agent-500", AgentStatus::Busy).await;
    eventually("a refresh is over", async || running.fleet.board().now().observed_at > before).await;
    let n_lists = coder.calls().get("GET /api/v2/workspaces").copied().unwrap_or_default();
    let n_all: usize = coder.calls().values().sum();
    let n_refreshes = n_lists.div_ceil(10).max(1);
    assert!(n_all <= 20 * n_refreshes, "{n_all} calls in {n_refreshes} refreshes: {:?}", coder.calls());
    assert!(n_lists >= 10, "{n_lists} pages were read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_agent_is_on_exactly_one_page_and_reading_makes_no_call() {
    let coder = stub(Pace::Held).await;
    coder.seed("agent", 250);
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    let directory = running.stop().await;
    let running = RunningFleet::start_in(directory, coder.url(), &coder.token()).await;
    let mut names = std::collections::BTreeSet::new();
    for number in 1..=3 {
        let page = PageRequest::parse(number, 100).unwrap();
        let listed = running.fleet.agent_list(&operator(), ListAgents { page, ..list_all() }).await.unwrap();
        assert_eq!(listed.page.total_count, 250);
        names.extend(listed.page.items.iter().map(|state| state.agent.name.to_string()));
    }
    assert_eq!(names.len(), 250);
}
