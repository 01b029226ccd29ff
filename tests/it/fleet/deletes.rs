//! Deletes and other calls for the same agent: all of them end, and none delays the others.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::agents::{ChangeAgent, RequestToken};
use fleet_mcp::app::error::Code;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::id::AgentId;
use fleet_mcp::domain::operation::{Failure, Operation, OperationEnd, OperationKind};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{
    CoderStub, Crew, Fault, Matches, Pace, Rule, RunningFleet, Scene, When, change_command, client,
    eventually, fleet_options, operator, stub,
};

const BUILD: &str = "/api/v2/workspaces/{id}/builds";
const CHANGES: [OperationKind; 3] = [OperationKind::Start, OperationKind::Stop, OperationKind::Restart];

/// A fleet that builds one workspace at a time.
async fn narrow(directory: Arc<TempDir>, coder: &CoderStub, build_timeout: Duration) -> RunningFleet {
    let options = FleetOptions { parallel_builds: NonZeroUsize::MIN, build_timeout, ..fleet_options() };
    RunningFleet::start_with(directory, client(coder.url(), &coder.token()), options).await.seen().await
}

async fn ready(running: &RunningFleet, name: &str) -> AgentId {
    running.create(name).await.unwrap();
    running.becomes(name, AgentStatus::Idle).await;
    running.show(name).await.unwrap().agent.id
}

/// Kind, state and failure of an agent's operations, oldest first, once all of them have ended.
async fn ends(running: &RunningFleet, agent: AgentId) -> Vec<(String, String, Option<String>)> {
    eventually("no operation is open", async || running.store.operations_open().await.unwrap().is_empty())
        .await;
    let operations = running.store.operations_of(agent, 9).await.unwrap();
    let end = |operation: &Operation| {
        let failure = match operation.end.clone() {
            Some(OperationEnd::Failed(Failure { code, message })) => Some(format!("{code}: {message}")),
            Some(OperationEnd::Canceled(left)) => left.map(|left| format!("CANCELED: {left}")),
            Some(OperationEnd::Done) | None => None,
        };
        (operation.kind.word().to_owned(), operation.state().word().to_owned(), failure)
    };
    operations.iter().rev().map(end).collect()
}

fn ended(kind: &str, state: &str, failure: Option<&str>) -> (String, String, Option<String>) {
    (kind.to_owned(), state.to_owned(), failure.map(str::to_owned))
}

#[tokio::test]
async fn an_agent_that_is_being_deleted_takes_no_other_change() {
    let scene = Scene::new(Pace::Instant).await;
    let id = ready(&scene.running, "one").await;
    scene.coder.set_pace(Pace::Held);
    scene.running.delete("one").await.unwrap();
    let refused = [
        scene.running.start_agent("one").await.unwrap_err(),
        scene.running.stop_agent("one").await.unwrap_err(),
        scene.running.restart_agent("one").await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(
            (error.code(), error.is_retryable(), error.to_string(), error.next_action()),
            (
                Code::AgentNotReady,
                false,
                "agent 'one' is being deleted".to_owned(),
                "Call create_agent to make another agent.".to_owned()
            )
        );
    }
    scene.coder.set_pace(Pace::PerRead);
    scene.running.is_gone("one").await;
    let expected = [ended("create", "done", None), ended("delete", "done", None)];
    assert_eq!(ends(&scene.running, id).await, expected);
}

#[tokio::test]
async fn a_repeated_key_finds_its_change_while_the_agent_is_being_deleted() {
    let scene = Scene::new(Pace::Instant).await;
    ready(&scene.running, "one").await;
    let stop = || ChangeAgent {
        request: Some(RequestToken { key: "k".into(), fingerprint: [1; 32] }),
        ..change_command("one")
    };
    let first = scene.running.fleet.agent_stop(&operator(), stop()).await.unwrap().operation;
    scene.running.becomes("one", AgentStatus::Stopped).await;
    scene.coder.set_pace(Pace::Held);
    scene.running.delete("one").await.unwrap();
    let again = scene.running.fleet.agent_stop(&operator(), stop()).await.unwrap().operation;
    assert_eq!((first.is_some(), again), (true, first));
    scene.coder.set_pace(Pace::PerRead);
    scene.running.is_gone("one").await;
}

#[tokio::test]
async fn the_same_holds_on_the_embedded_coder() {
    let crew = Crew::with("one").await;
    let id = crew.running.show("one").await.unwrap().agent.id;
    // The agent is at rest a moment before its create has ended.
    ends(&crew.running, id).await;
    let (deleted, stopped) = tokio::join!(crew.running.delete("one"), crew.running.stop_agent("one"));
    deleted.unwrap();
    crew.running.is_gone("one").await;
    let found = ends(&crew.running, id).await;
    let (created, deleted) = (ended("create", "done", None), ended("delete", "done", None));
    assert_eq!((found.first(), found.last()), (Some(&created), Some(&deleted)));
    assert!(stopped.is_ok() || stopped.is_err_and(|error| error.code() == Code::AgentNotReady));
    eventually("every slot is given back", async || {
        let slots = crew.running.fleet.fleet_status(&operator()).await.unwrap().slots;
        (slots.used, slots.queued) == (0, 0)
    })
    .await;
}

/// As left behind by a version that accepted changes while a delete ran: three of them kept a fleet from building.
#[tokio::test]
async fn changes_of_an_agent_that_is_gone_end_at_the_next_start_and_let_others_build() {
    let coder = stub(Pace::Instant).await;
    let running = narrow(Arc::new(tempfile::tempdir().unwrap()), &coder, Duration::from_secs(60)).await;
    let id = ready(&running, "one").await;
    running.delete("one").await.unwrap();
    running.is_gone("one").await;
    ends(&running, id).await;
    for kind in CHANGES {
        let left = Operation::accepted(id, kind, "operator", Utc::now());
        running.store.operation_accept(&left, None).await.unwrap();
    }
    let directory = running.stop().await;
    let running = narrow(directory, &coder, Duration::from_secs(60)).await;
    ready(&running, "two").await;
    let gone = Some("NOT_FOUND: the workspace of agent 'one' is gone");
    let expected = [
        ended("create", "done", None),
        ended("delete", "done", None),
        ended("start", "failed", gone),
        ended("stop", "failed", gone),
        ended("restart", "failed", gone),
    ];
    assert_eq!(ends(&running, id).await, expected);
}

#[tokio::test]
async fn operation_that_a_delete_overtakes_is_canceled_even_if_the_server_was_killed_in_between() {
    let coder = stub(Pace::Instant).await;
    let running = narrow(Arc::new(tempfile::tempdir().unwrap()), &coder, Duration::from_secs(60)).await;
    let id = ready(&running, "one").await;
    let directory = running.stop().await;
    let running = RunningFleet::start_in(Arc::clone(&directory), "http://127.0.0.1:1", &coder.token()).await;
    for kind in [OperationKind::Stop, OperationKind::Delete] {
        let accepted = Operation::accepted(id, kind, "operator", Utc::now());
        running.store.delete_accept(&accepted, None, None).await.unwrap();
    }
    let directory = {
        drop(directory);
        running.stop().await
    };
    let running = narrow(directory, &coder, Duration::from_secs(60)).await;
    running.is_gone("one").await;
    let expected =
        [ended("create", "done", None), ended("stop", "canceled", None), ended("delete", "done", None)];
    assert_eq!(ends(&running, id).await, expected);
}

#[tokio::test]
async fn a_workspace_deleted_outside_ends_what_was_asked_of_it() {
    let coder = stub(Pace::Instant).await;
    let running = narrow(Arc::new(tempfile::tempdir().unwrap()), &coder, Duration::from_secs(60)).await;
    let id = ready(&running, "one").await;
    coder.set_pace(Pace::Held);
    let workspace = coder.workspace("one")["id"].as_str().unwrap().to_owned();
    let delete = json!({ "transition": "delete" });
    coder.api().post(&format!("/api/v2/workspaces/{workspace}/builds"), &delete).await;
    let left = Operation::accepted(id, OperationKind::Stop, "operator", Utc::now());
    running.store.operation_accept(&left, None).await.unwrap();
    let refusal = Some("AGENT_NOT_READY: agent 'one' is being deleted");
    let directory = running.stop().await;
    let running = narrow(directory, &coder, Duration::from_secs(60)).await;
    let expected = [ended("create", "done", None), ended("stop", "failed", refusal)];
    assert_eq!(ends(&running, id).await, expected);
    coder.set_pace(Pace::PerRead);
    running.is_gone("one").await;
}

#[tokio::test]
async fn a_request_that_coder_never_carries_out_ends_with_the_reason_and_holds_up_no_other() {
    let coder = stub(Pace::Instant).await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let running = narrow(directory, &coder, Duration::from_secs(10)).await;
    let id = ready(&running, "one").await;
    coder.fault(Rule { matches: Matches::call("POST", BUILD), when: When::Always, kind: Fault::ErrorBefore });
    running.stop_agent("one").await.unwrap();
    ready(&running, "two").await;
    let refusal = "TIMEOUT: Coder did not stop agent 'one' in time: build_create: Coder answered 500: Internal \
                   server error (the stub was told to fail before the effect)";
    let expected = [ended("create", "done", None), ended("stop", "failed", Some(refusal))];
    assert_eq!(ends(&running, id).await, expected);
}
