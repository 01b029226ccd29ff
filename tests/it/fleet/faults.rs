//! Unclear answers: looked up, adopted or tried again, never done twice.

use std::time::Duration;

use fleet_mcp::app::agents::CreateAgent;
use fleet_mcp::domain::agent::AgentStatus;

use crate::harness::{
    Fault, FaultProxy, Matches, Pace, ProxyFault, Rule, RunningFleet, Scene, When, create_command,
    eventually_within, operator, rounds, stub,
};

const CREATE: &str = "/api/v2/organizations/{org}/members/{user}/workspaces";
const BUILD: &str = "/api/v2/workspaces/{id}/builds";

/// Idle, or busy with what it was made for.
async fn all_up(running: &RunningFleet, count: usize) {
    let limit = Duration::from_secs(60 + count as u64 / 4);
    eventually_within(limit, "every agent is up", async || {
        let counts = running.fleet.board().now().counts();
        let of = |status| counts.get(&status).copied().unwrap_or_default();
        of(AgentStatus::Idle) + of(AgentStatus::Busy) == count as u64
    })
    .await;
}

async fn create_many(running: &RunningFleet, count: usize) -> usize {
    let operator = operator();
    let creates =
        (0..count).map(|n| running.fleet.agent_create(&operator, create_command(&format!("agent-{n}"))));
    futures_util::future::join_all(creates).await.into_iter().filter(Result::is_ok).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_half_answered_by_a_false_500_give_exactly_one_workspace_each() {
    let count = rounds(1_000, 100);
    let scene = Scene::new(Pace::Instant).await;
    let rule = Rule { matches: Matches::call("POST", CREATE), when: When::Every(2), kind: Fault::ErrorAfter };
    let hits = scene.coder.fault(rule);
    assert_eq!(create_many(&scene.running, count).await, count);
    all_up(&scene.running, count).await;
    let workspaces = scene.coder.workspaces();
    assert_eq!(workspaces.len(), count);
    assert!(workspaces.iter().all(|workspace| workspace.builds == 1));
    assert!(scene.coder.fault_hits(hits) >= count / 2);
}

#[tokio::test]
async fn races_and_errors_before_or_after_the_effect_of_a_create_still_give_one_workspace_each() {
    for kind in [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::CreateRace,
        Fault::CreateConflict,
        Fault::BadGateway,
        Fault::EmptyBody,
        Fault::WrongTypes,
    ] {
        let scene = Scene::new(Pace::Instant).await;
        scene.coder.fault(Rule { matches: Matches::call("POST", CREATE), when: When::First(2), kind });
        assert_eq!(create_many(&scene.running, 4).await, 4);
        all_up(&scene.running, 4).await;
        assert_eq!(scene.coder.workspaces().len(), 4);
    }
}

#[tokio::test]
async fn cut_connections_around_every_build_request_change_nothing_in_the_end() {
    for kind in [ProxyFault::CutBefore, ProxyFault::CutAfter, ProxyFault::CutInBody { bytes: 40 }] {
        let coder = stub(Pace::Instant).await;
        let proxy = FaultProxy::start(coder.url()).await;
        let running = RunningFleet::start(&proxy.url(), &coder.token()).await.seen().await;
        for path in [CREATE, BUILD] {
            proxy.fault(Rule {
                matches: Matches::call("POST", path),
                when: When::Every(2),
                kind: kind.clone(),
            });
        }
        running.create("one").await.unwrap();
        running.becomes("one", AgentStatus::Idle).await;
        running.stop_agent("one").await.unwrap();
        running.becomes("one", AgentStatus::Stopped).await;
        running.start_agent("one").await.unwrap();
        running.becomes("one", AgentStatus::Idle).await;
        running.delete("one").await.unwrap();
        running.is_gone("one").await;
        assert_eq!(coder.workspaces()[0].builds, 4, "one build a change");
    }
}

#[tokio::test]
async fn a_rate_limit_delays_and_loses_nothing() {
    let scene = Scene::new(Pace::Instant).await;
    let kind = Fault::RateLimited { retry_after: 1, reset_after: 1 };
    scene.coder.fault(Rule { matches: Matches::call("POST", CREATE), when: When::First(1), kind });
    assert_eq!(create_many(&scene.running, 2).await, 2);
    all_up(&scene.running, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_five_percent_random_faults_at_least_95_of_100_calls_succeed_at_the_first_attempt() {
    let coder = stub(Pace::PerRead).await;
    let proxy = FaultProxy::start(coder.url()).await;
    let running = RunningFleet::start(&proxy.url(), &coder.token()).await.seen().await;
    for (seed, kind) in [(1, ProxyFault::CutBefore), (2, ProxyFault::CutAfter)] {
        proxy.fault(Rule { matches: Matches::any(), when: When::Percent { percent: 3, seed }, kind });
    }
    let n_accepted = create_many(&running, 100).await;
    assert!(n_accepted >= 95, "{n_accepted} of 100 accepted");
    all_up(&running, n_accepted).await;
    assert_eq!(coder.workspaces().len(), n_accepted);
    assert!(proxy.counts().injected > 0);
}

#[tokio::test]
async fn a_workspace_that_appears_under_our_name_but_is_not_ours_is_never_adopted() {
    let scene = Scene::new(Pace::Instant).await;
    let fleet = scene.running.fleet.clone();
    let theirs = scene.coder.api().workspace_create("dataone", "mine").await;
    assert_eq!(theirs.status, 201);
    scene.coder.fault(Rule {
        matches: Matches::call("POST", CREATE),
        when: When::First(1),
        kind: Fault::ErrorBefore,
    });
    let request = CreateAgent { project: "setup".into(), ..create_command("mine") };
    let error = fleet.agent_create(&operator(), request).await.unwrap_err();
    assert_eq!(error.to_string(), "agent 'mine' already exists");
    assert_eq!(scene.coder.workspaces().len(), 1);
}
