//! Coder's own streams of changes, cut or silent while all else of it answers: nothing may depend on them.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet_mcp::coder::Deleted;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::history::HistoryKind;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::TaskState;
use tokio::time::timeout;
use uuid::Uuid;

use super::faults::behind_a_proxy;
use crate::harness::{Crew, Matches, ProxyFault, Rule, When, eventually, watched};

const METADATA: &str = "/api/v2/workspaceagents/{id}/watch-metadata";
/// How late a status may be seen, with any fault of a stream.
const LAG: Duration = Duration::from_secs(5);
/// A reader is not held up by a stream that says nothing.
const READ: Duration = Duration::from_secs(10);

#[tokio::test]
async fn streams_that_are_cut_or_fall_silent_delay_no_status_and_lose_and_double_no_report() {
    let (crew, proxy) = behind_a_proxy().await;
    let shown = crew.running.fleet.board().now();
    let workspace = shown.by_name("one").unwrap().agent.workspace_id.unwrap().0;
    let faults = [
        ("refused", ProxyFault::CutBefore),
        ("cut", ProxyFault::CutInBody { bytes: 9 }),
        ("silent", ProxyFault::SilenceInBody { bytes: 9 }),
        ("stalled", ProxyFault::Stall),
    ];
    for (word, kind) in faults {
        let rule = proxy.fault(Rule { matches: Matches::path(METADATA), when: When::Always, kind });
        // Longer than a reader waits for a stream, so that the answer is of the time of the task.
        let task = crew.give("one", &format!("sleep 5\nsay {word}")).await;
        crew.works("one").await;
        let shown = timeout(READ, crew.running.show("one")).await.expect("the agent is shown").unwrap();
        assert_eq!(shown.agent.sighting.status, AgentStatus::Busy, "{word}");
        // Straight from Coder, past the proxy.
        watched(&crew.local.api(), workspace, |workspace| {
            workspace.latest_app_status.as_ref().is_some_and(|status| status.message == word)
        })
        .await;
        timeout(LAG, crew.rests("one")).await.expect("it is seen to rest");
        let task = crew.ended(task).await;
        assert_eq!((task.state(), task.outcome()), (TaskState::Done, Some(word)));
        assert!(proxy.fault_hits(rule) > 0, "{word}: a stream was asked for");
        proxy.clear_faults();
    }
    eventually("each report of Coder is in the history, once", async || {
        let told = reports_of_coder(&crew, workspace).await;
        let journaled = reports_in_history(&crew).await;
        journaled.len() == told.len() && BTreeSet::from_iter(journaled) == told
    })
    .await;
    let matches = Matches::path(METADATA);
    let whole = proxy.fault(Rule { matches, when: When::Always, kind: ProxyFault::Delay(Duration::ZERO) });
    assert!(crew.running.show("one").await.is_ok());
    assert_eq!(proxy.fault_hits(whole), 1, "a stream that is whole again is read again");
}

#[tokio::test]
async fn changes_during_the_wait_for_a_stream_are_in_the_answer() {
    let (crew, proxy) = behind_a_proxy().await;
    let stall = Rule { matches: Matches::path(METADATA), when: When::Always, kind: ProxyFault::Stall };
    let stall = proxy.fault(stall);
    let change = async {
        eventually("the stream is waited for", async || proxy.fault_hits(stall) > 0).await;
        crew.give("one", "sleep 60").await;
    };
    let (shown, ()) = tokio::join!(crew.running.show("one"), change);
    assert_eq!(shown.unwrap().agent.sighting.status, AgentStatus::Busy);
}

async fn reports_of_coder(crew: &Crew, workspace: Uuid) -> BTreeSet<Uuid> {
    let workspace = crew.local.client().workspace(workspace, Deleted::Exclude).await.unwrap();
    let agents = workspace.latest_build.resources.iter().flat_map(|resource| &resource.agents);
    let apps = agents.flat_map(|agent| &agent.apps);
    apps.flat_map(|app| &app.statuses).map(|status| status.id).collect()
}

async fn reports_in_history(crew: &Crew) -> Vec<Uuid> {
    let agent = crew.running.store.agent_newest_by_name("one").await.unwrap().unwrap();
    let page = PageRequest::parse(1, 100).unwrap();
    let page = crew.running.store.history_page(agent.id, Some(HistoryKind::Report), page).await.unwrap().page;
    page.items.into_iter().map(|entry| entry.id()).collect()
}
