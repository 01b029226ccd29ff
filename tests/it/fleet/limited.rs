//! Rate limits of Coder: each holds up what it counts, for as long as it says, and nothing else.

use std::num::NonZeroUsize;
use std::sync::Arc;

use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::agents::CreateAgent;
use fleet_mcp::app::error::Code;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::operation::OperationState;

use crate::harness::{
    Fault, Matches, Pace, Rule, RunningFleet, Scene, When, client, create_command, eventually, fleet_options,
    operator, stub,
};

const LIST: &str = "/api/v2/workspaces";
const BUILD: &str = "/api/v2/workspaces/{id}/builds";

/// The window has just ended: the next request may come at once.
const OPEN_AGAIN: Fault = Fault::RateLimited { retry_after: 60, reset_after: 0 };
const FOR_A_MINUTE: Fault = Fault::RateLimited { retry_after: 60, reset_after: 60 };

#[tokio::test]
async fn agents_become_ready_as_soon_as_the_list_is_open_again_however_often_it_was_limited() {
    let scene = Scene::new(Pace::PerRead).await;
    let limit = Rule { matches: Matches::call("GET", LIST), when: When::First(36), kind: OPEN_AGAIN };
    let hits = scene.coder.fault(limit);
    for n in 0..5 {
        scene.running.create(&format!("agent-{n}")).await.unwrap();
    }
    for n in 0..5 {
        scene.running.becomes(&format!("agent-{n}"), AgentStatus::Idle).await;
    }
    assert_eq!(scene.coder.fault_hits(hits), 36);
}

#[tokio::test]
async fn a_limited_list_is_no_outage_and_operations_go_on_without_it() {
    let scene = Scene::new(Pace::PerRead).await;
    let limit = Rule { matches: Matches::call("GET", LIST), when: When::Always, kind: OPEN_AGAIN };
    let hits = scene.coder.fault(limit);
    eventually("several looks were limited", async || scene.coder.fault_hits(hits) >= 9).await;
    assert_eq!(scene.running.fleet.health().now().error, None);
    let created = scene.running.create("one").await.unwrap().operation.unwrap();
    eventually("the workspace is made", async || {
        let operation = scene.running.store.operation_by_id(created).await.unwrap();
        operation.is_some_and(|operation| operation.state() == OperationState::Done)
    })
    .await;
}

#[tokio::test]
async fn an_operation_that_waits_for_a_rate_limit_gives_its_slot_to_the_next() {
    let coder = stub(Pace::Instant).await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let options = FleetOptions { parallel_builds: NonZeroUsize::MIN, ..fleet_options() };
    let running =
        RunningFleet::start_with(directory, client(coder.url(), &coder.token()), options).await.seen().await;
    running.create("one").await.unwrap();
    running.becomes("one", AgentStatus::Idle).await;
    let limit = Rule { matches: Matches::call("POST", BUILD), when: When::Always, kind: FOR_A_MINUTE };
    let hits = coder.fault(limit);
    running.stop_agent("one").await.unwrap();
    eventually("the stop is limited", async || coder.fault_hits(hits) == 1).await;
    running.create("two").await.unwrap();
    running.becomes("two", AgentStatus::Idle).await;
    assert_eq!(running.status("one"), Some(AgentStatus::Idle));
    assert_eq!(coder.fault_hits(hits), 1, "nothing is sent before the limit opens");
}

#[tokio::test]
async fn a_template_that_is_limited_at_the_first_look_hides_none_of_its_agents() {
    let coder = stub(Pace::Instant).await;
    coder.api().workspace_create("setup", "outside").await;
    let parameters = Matches::call("GET", "/api/v2/templateversions/{id}/rich-parameters");
    let hits = coder.fault(Rule { matches: parameters, when: When::First(3), kind: OPEN_AGAIN });
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    running.becomes("outside", AgentStatus::Idle).await;
    assert_eq!(coder.fault_hits(hits), 3);
}

#[tokio::test]
async fn a_project_that_could_not_be_read_at_the_first_look_is_not_said_to_be_missing() {
    let coder = stub(Pace::Instant).await;
    let parameters = Matches::call("GET", "/api/v2/templateversions/{id}/rich-parameters");
    let hits = coder.fault(Rule { matches: parameters, when: When::Nth(2), kind: FOR_A_MINUTE });
    let running = RunningFleet::start(coder.url(), &coder.token()).await;
    eventually("one of two templates was limited", async || coder.fault_hits(hits) == 1).await;
    eventually("the fleet says so", async || running.fleet.health().now().error.is_some()).await;
    for project in ["setup", "dataone"] {
        let command = CreateAgent { project: project.into(), ..create_command("one") };
        let refused = running.fleet.agent_create(&operator(), command).await.unwrap_err();
        assert_eq!(refused.code(), Code::CoderUnavailable, "{project}: {refused}");
    }
}
