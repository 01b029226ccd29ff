//! Faults between us and agents with our runner: lost, doubled, late and cut, and yet each task is done once.

use std::sync::Arc;

use chrono::Utc;
use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::tasks::CancelTask;
use fleet_mcp::coder::AppRequest;
use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::task::{Channel, TaskState, WhenBusy};
use fleet_mcp::store::{Store, StoreOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::{
    Crew, FaultProxy, LocalSite, Matches, ProxyFault, Rule, RunningFleet, When, client, eventually,
    fleet_options, hurried_options, operator, project,
};

const APP: &str = "/@{user}/{workspace}/apps/{slug}/**";
const MESSAGE: &str = "/@{user}/{workspace}/apps/{slug}/message";

/// A crew whose every call goes through a proxy.
pub(super) async fn behind_a_proxy() -> (Crew, FaultProxy) {
    behind_a_proxy_with(fleet_options()).await
}

pub(super) async fn behind_a_proxy_with(options: FleetOptions) -> (Crew, FaultProxy) {
    let site = LocalSite::new().project(project("setup", None));
    let local = site.start().await;
    let proxy = FaultProxy::start(&local.url).await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let running = RunningFleet::start_with(directory, client(&proxy.url(), &local.token), options).await;
    let crew = Crew { running: running.seen().await, local, site };
    crew.agent("one").await;
    (crew, proxy)
}

#[tokio::test]
async fn a_message_that_is_lost_or_whose_answer_is_lost_is_sent_again_and_done_once() {
    let (crew, proxy) = behind_a_proxy().await;
    for (number, kind) in [ProxyFault::CutBefore, ProxyFault::CutAfter, ProxyFault::CutInBody { bytes: 4 }]
        .into_iter()
        .enumerate()
    {
        let hits = proxy.fault(Rule { matches: Matches::call("POST", MESSAGE), when: When::First(2), kind });
        let task = crew.give("one", &format!("say {number}")).await;
        assert_eq!(crew.ended(task).await.state(), TaskState::Done);
        assert!(proxy.fault_hits(hits) >= 1);
        proxy.clear_faults();
        crew.rests("one").await;
    }
    assert_eq!(crew.taken("one"), ["say ready", "say 0", "say 1", "say 2"]);
}

#[tokio::test]
async fn tasks_end_in_order_when_half_of_the_requests_to_the_app_are_cut() {
    let (crew, proxy) = behind_a_proxy().await;
    for (seed, kind) in [ProxyFault::CutBefore, ProxyFault::CutAfter].into_iter().enumerate() {
        let when = When::Percent { percent: 50, seed: seed as u64 };
        proxy.fault(Rule { matches: Matches::path(APP), when, kind });
    }
    let mut last = None;
    for number in 0..8 {
        last = Some(crew.start("one", &format!("say {number}"), WhenBusy::Queue).await.unwrap().task.id);
    }
    assert_eq!(crew.ended(last.unwrap()).await.state(), TaskState::Done);
    let mut expected = vec!["say ready".to_owned()];
    expected.extend((0..8).map(|number| format!("say {number}")));
    assert_eq!(crew.taken("one"), expected);
    assert!(crew.tasks("one").await.iter().all(|(state, _, _)| state == "done"));
}

#[tokio::test]
async fn a_message_that_arrives_after_its_task_was_canceled_is_ended_in_the_workspace_too() {
    let crew = Crew::with("one").await;
    crew.give("one", "sleep 600").await;
    crew.works("one").await;
    let late = crew.start("one", "sleep 601", WhenBusy::Queue).await.unwrap().task.id;
    let all = CancelTask { name: "one".to_owned(), all: true, escalate: false };
    crew.running.fleet.task_cancel(&operator(), all).await.unwrap();
    crew.rests("one").await;
    let body = json!({ "content": "sleep 601", "type": "user", "task_id": late.to_string() });
    let arrived = crew.ask_app("one", AppRequest::post("/message", body)).await;
    assert_eq!(arrived.status, 200);
    assert_eq!(crew.taken("one"), ["say ready", "sleep 600", "sleep 601"]);
    crew.only_the_runner_is_left().await;
    crew.rests("one").await;
    assert_eq!(crew.ended(late).await.state(), TaskState::Canceled);
}

#[tokio::test]
async fn all_connections_cut_in_the_middle_of_a_task_lose_nothing() {
    let (crew, mut proxy) = behind_a_proxy().await;
    let task = crew.give("one", "sleep 2\nsay through").await;
    crew.works("one").await;
    proxy.down().await;
    eventually("the cut is noticed", async || !crew.running.fleet.health().now().is_reachable()).await;
    proxy.up().await;
    let task = crew.ended(task).await;
    assert_eq!((task.state(), task.outcome()), (TaskState::Done, Some("through")));
    assert_eq!(crew.taken("one").len(), 2);
}

#[tokio::test]
async fn an_agent_whose_app_does_not_answer_holds_up_no_other_and_is_told_as_unreachable() {
    let (crew, proxy) = behind_a_proxy_with(hurried_options()).await;
    crew.agent("two").await;
    crew.give("one", "sleep 600").await;
    crew.works("one").await;
    let stalled = Matches::path("/@{user}/one.main/apps/{slug}/**");
    proxy.fault(Rule { matches: stalled, when: When::Always, kind: ProxyFault::Stall });
    let other = crew.give("two", "say quick").await;
    assert_eq!(crew.ended(other).await.state(), TaskState::Done);
    eventually("its silence is told", async || {
        let snapshot = crew.running.fleet.board().now();
        let sighting = &snapshot.by_name("one").unwrap().agent.sighting;
        (sighting.status, sighting.attention) == (AgentStatus::Busy, Attention::Unreachable)
    })
    .await;
}

#[tokio::test]
async fn a_runner_that_is_killed_in_the_middle_fails_its_task_and_runs_it_no_second_time() {
    let crew = Crew::with("one").await;
    let task = crew.give("one", "sleep 600").await;
    crew.works("one").await;
    kill_process(Pid::from_raw(crew.site.runner().cast_signed()).unwrap(), Signal::KILL).unwrap();
    eventually("it is known to be gone", async || {
        let snapshot = crew.running.fleet.board().now();
        let sighting = &snapshot.by_name("one").unwrap().agent.sighting;
        sighting.attention == Attention::Unreachable || sighting.status == AgentStatus::Failed
    })
    .await;
    crew.running.restart_agent("one").await.unwrap();
    let task = crew.ended(task).await;
    assert!(matches!(task.state(), TaskState::Failed | TaskState::Canceled), "{task:?}");
    crew.rests("one").await;
    assert_eq!(crew.taken("one"), ["say ready", "sleep 600"]);
}

#[tokio::test]
async fn a_delivery_that_was_never_confirmed_and_is_forgotten_ends_and_is_not_sent_again() {
    let crew = Crew::with("one").await;
    crew.give("one", "sleep 600").await;
    crew.works("one").await;
    let unconfirmed = crew.start("one", "say once", WhenBusy::Queue).await.unwrap().task.id;
    crew.running.stop_agent("one").await.unwrap();
    crew.running.becomes("one", AgentStatus::Stopped).await;
    let Crew { running, local, site } = crew;
    let directory = running.stop().await;
    let paths =
        StoreOptions { path: directory.path().join("fleet.db"), backups: directory.path().join("backups") };
    let store = Store::open(&paths).await.unwrap();
    let mut task = store.task_by_id(unconfirmed).await.unwrap().unwrap();
    task.send(Channel::Runner, None, (1, Utc::now()));
    assert!(store.task_save(&task, &[], Utc::now()).await.unwrap());
    store.close().await;
    // As a runner writes it that did the task, and so much after it that it has forgotten all of it.
    let forgotten = json!({
        "entry": "forgotten", "n_turns": 3000, "has_prompt": true, "tasks": [unconfirmed.to_string()],
        "usage": { "input_tokens": 0, "output_tokens": 0, "cost_usd": null },
    });
    let journal = site.workspace("one").join("fleet/journal.jsonl");
    std::fs::write(&journal, format!("{forgotten}\n")).unwrap();
    let running = RunningFleet::start_in(directory, &local.url, &local.token).await.seen().await;
    let crew = Crew { running, local, site };
    crew.running.start_agent("one").await.unwrap();
    let task = crew.ended(unconfirmed).await;
    let outcome = "the agent finished the task and lost its result; it is not run again";
    assert_eq!((task.state(), task.outcome()), (TaskState::Failed, Some(outcome)));
    crew.rests("one").await;
    assert_eq!(crew.taken("one"), Vec::<String>::new());
}
