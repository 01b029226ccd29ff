//! Agents whose workspace is up and whose app does not answer: told with the remedy, and repaired by it.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use fleet_mcp::app::FleetOptions;
use fleet_mcp::domain::agent::Attention;
use fleet_mcp::domain::limits::Limits;
use fleet_mcp::domain::task::TaskState;

use crate::harness::{
    Crew, FalseAnswer, FaultProxy, Matches, Pace, ProxyFault, Rule, RunningFleet, When, eventually,
    eventually_within, fleet_options, operator, stub,
};

use super::faults::behind_a_proxy_with;

const APP: &str = "/@{user}/{workspace}/apps/{slug}/**";

/// What Coder answers for an app that does not run.
fn dead() -> ProxyFault {
    let body = "<html>Bad Gateway</html>".to_owned();
    ProxyFault::AnswerBefore(FalseAnswer { status: 502, content_type: "text/html".to_owned(), body })
}

async fn crew_with(silence: TimeDelta) -> (Crew, FaultProxy) {
    let limits = Limits { silence, ..Limits::NORMAL };
    behind_a_proxy_with(FleetOptions { limits, ..fleet_options() }).await
}

#[tokio::test]
async fn a_task_that_a_dead_runner_keeps_waiting_is_told_with_the_remedy_and_done_after_it() {
    let (crew, proxy) = crew_with(TimeDelta::seconds(1)).await;
    proxy.fault(Rule { matches: Matches::path(APP), when: When::Always, kind: dead() });
    let task = crew.give("one", "say back").await;
    let notices = async || crew.running.fleet.fleet_status(&operator()).await.unwrap().attention;
    eventually("its silence is told", async || {
        notices()
            .await
            .iter()
            .any(|notice| notice.reason.starts_with("the agent's app has not responded since"))
    })
    .await;
    let remedy =
        "Call restart_agent for 'one': its workspace is running, but the agent in it does not respond.";
    let notice = notices().await.remove(0);
    assert_eq!((notice.attention, notice.next_action.as_str()), (Attention::Unreachable, remedy));
    crew.running.restart_agent("one").await.unwrap();
    proxy.clear_faults();
    assert_eq!(crew.ended(task).await.state(), TaskState::Done);
    crew.rests("one").await;
    assert_eq!(notices().await, []);
}

#[tokio::test]
async fn the_silence_of_an_app_that_hangs_begins_with_the_look_that_got_no_answer() {
    let coder = stub(Pace::Instant).await;
    let proxy = FaultProxy::start(coder.url()).await;
    let running = RunningFleet::start(&proxy.url(), &coder.token()).await.seen().await;
    proxy.fault(Rule { matches: Matches::path(APP), when: When::Always, kind: ProxyFault::Stall });
    running.create("one").await.unwrap();
    let silent_since = || {
        let snapshot = running.fleet.board().now();
        snapshot.by_name("one").and_then(|state| state.tasks.open.as_ref()?.work.silent_since)
    };
    eventually_within(Duration::from_secs(120), "it is silent", async || silent_since().is_some()).await;
    // A look waits eight seconds for its answer.
    let silent_for = Utc::now() - silent_since().unwrap();
    assert!(silent_for >= TimeDelta::seconds(7), "{silent_for}");
}

#[tokio::test]
async fn of_a_prompt_that_nothing_tells_about_the_outcome_is_unknown() {
    let coder = stub(Pace::Instant).await;
    let projects = tempfile::tempdir().unwrap();
    std::fs::write(projects.path().join("setup.toml"), "app_slug = \"none\"\n").unwrap();
    let token = coder.token();
    let at = (coder.url(), token.as_str());
    let running = RunningFleet::start_with_projects(at, projects.path().into(), fleet_options()).await;
    let running = running.seen().await;
    running.create("one").await.unwrap();
    running.rests("one").await;
    let snapshot = running.fleet.board().now();
    let last = snapshot.by_name("one").unwrap().tasks.last.clone().unwrap();
    let outcome = "unknown: the workspace started with it as its prompt, and no report shows its result";
    assert_eq!((last.state(), last.outcome()), (TaskState::Done, Some(outcome)));
}
