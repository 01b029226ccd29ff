//! Operations as people see them: listed, canceled at any point, and never half.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::agents::ChangeAgent;
use fleet_mcp::app::caller::Caller;
use fleet_mcp::app::error::{Code, Error};
use fleet_mcp::app::operations::{CancelOperation, Cancellation, EndedOperations, ListOperations};
use fleet_mcp::domain::access::AllowedProjects;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::id::OperationId;
use fleet_mcp::domain::operation::{CancelRequest, Operation, OperationEnd, OperationKind, OperationState};
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::role::RoleKind;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::harness::{
    Crew, Fault, FaultProxy, LocalSite, Matches, Pace, Rule, RunningFleet, Scene, When, caller,
    change_command, client, eventually, fleet_options, operator, stub,
};

const CANCEL: &str = "/api/v2/workspacebuilds/{id}/cancel";

async fn cancel(running: &RunningFleet, id: OperationId, wait: Duration) -> Result<Cancellation, Error> {
    running.fleet.operation_cancel(&operator(), CancelOperation { id: id.to_string(), wait }).await
}

/// Kind and state of all operations that a caller is shown, oldest first.
async fn listed(running: &RunningFleet, caller: &Caller, ended: EndedOperations) -> Vec<(String, String)> {
    let request = ListOperations { agent: None, ended, page: PageRequest::parse(1, 100).unwrap() };
    let page = running.fleet.operation_list(caller, request).await.unwrap();
    let row = |listed: &fleet_mcp::app::operations::ListedOperation| {
        (listed.operation.kind.to_string(), listed.operation.state().to_string())
    };
    page.items.iter().rev().map(row).collect()
}

async fn settled(running: &RunningFleet) {
    eventually("no operation is open", async || running.store.operations_open().await.unwrap().is_empty())
        .await;
}

fn rows(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(kind, state)| ((*kind).to_owned(), (*state).to_owned())).collect()
}

async fn ready() -> Scene {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    settled(&scene.running).await;
    scene
}

const NOT_AT_ALL: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn waiting_operation_is_canceled_at_once_and_readers_of_changes_are_told() {
    let scene = ready().await;
    scene.coder.set_pace(Pace::Held);
    scene.running.restart_agent("one").await.unwrap();
    let stop = scene.running.stop_agent("one").await.unwrap().operation.unwrap();
    let before = scene.running.fleet.board().revision();
    let canceled = cancel(&scene.running, stop, LONG).await.unwrap();
    let left = "the stop of agent 'one' is canceled: it was canceled before any request to Coder";
    assert_eq!(canceled.message, left);
    eventually("readers of changes are told", async || {
        let changed = scene.running.fleet.changes_after(before).await.unwrap();
        changed.iter().any(|change| change.agent.agent.name.as_str() == "one")
    })
    .await;
    scene.coder.set_pace(Pace::PerRead);
    settled(&scene.running).await;
    let expected = rows(&[("create", "done"), ("restart", "done"), ("stop", "canceled")]);
    assert_eq!(listed(&scene.running, &operator(), EndedOperations::Include).await, expected);
    assert_eq!(listed(&scene.running, &operator(), EndedOperations::Exclude).await, rows(&[]));
}

#[tokio::test]
async fn a_build_that_runs_is_canceled_at_coder() {
    let scene = ready().await;
    scene.coder.set_pace(Pace::Held);
    let stop = scene.running.stop_agent("one").await.unwrap().operation.unwrap();
    eventually("the stop is sent", async || scene.coder.workspaces()[0].builds == 2).await;
    let canceled = cancel(&scene.running, stop, NOT_AT_ALL).await.unwrap();
    assert_eq!(canceled.message, "the stop of agent 'one' is being canceled");
    // A build that goes on before Coder was asked could still succeed.
    eventually("Coder cancels the build", async || {
        let status = scene.coder.workspace("one")["latest_build"]["job"]["status"].clone();
        status == "canceling" || status == "canceled"
    })
    .await;
    scene.coder.set_pace(Pace::PerRead);
    scene.running.becomes("one", AgentStatus::Canceled).await;
    settled(&scene.running).await;
    let stop = scene.running.store.operation_by_id(stop).await.unwrap().unwrap();
    assert_eq!(stop.note(), Some("its build was canceled"));
    scene.running.start_agent("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
}

#[tokio::test]
async fn where_coder_cancels_no_build_the_operation_ends_and_says_so() {
    let scene = ready().await;
    scene.coder.set_pace(Pace::Held);
    let stop = scene.running.stop_agent("one").await.unwrap().operation.unwrap();
    eventually("the stop is sent", async || scene.coder.workspaces()[0].builds == 2).await;
    scene.coder.fault(Rule {
        matches: Matches::call("PATCH", CANCEL),
        when: When::Always,
        kind: Fault::Forbidden,
    });
    let canceled = cancel(&scene.running, stop, LONG).await.unwrap();
    let left = "the stop of agent 'one' is canceled: Coder did not cancel the build; it continues";
    assert_eq!(canceled.message, left);
    scene.coder.set_pace(Pace::PerRead);
    scene.running.becomes("one", AgentStatus::Stopped).await;
}

#[tokio::test]
async fn a_canceled_create_leaves_no_workspace_and_frees_its_name() {
    let scene = Scene::new(Pace::Held).await;
    let create = scene.running.create("one").await.unwrap().operation.unwrap();
    eventually("Coder has the workspace", async || scene.coder.workspaces().len() == 1).await;
    let canceled = cancel(&scene.running, create, NOT_AT_ALL).await.unwrap();
    assert_eq!(
        canceled.message,
        "the create of agent 'one' is canceled; the workspace it created is being deleted"
    );
    assert!(canceled.clean_up.is_some());
    scene.coder.set_pace(Pace::PerRead);
    scene.running.is_gone("one").await;
    settled(&scene.running).await;
    let expected = rows(&[("create", "canceled"), ("delete", "done")]);
    assert_eq!(listed(&scene.running, &operator(), EndedOperations::Include).await, expected);
    let create = scene.running.store.operation_by_id(create).await.unwrap().unwrap();
    assert_eq!(create.cancel.map(|cancel| cancel.by), Some(operator().principal.name));
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    assert_eq!(scene.coder.workspaces().iter().filter(|found| found.status != "deleted").count(), 1);
}

#[tokio::test]
async fn a_create_that_waits_for_its_turn_is_canceled_without_a_word_to_coder() {
    let coder = stub(Pace::Held).await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let options = FleetOptions { parallel_builds: NonZeroUsize::MIN, ..fleet_options() };
    let running =
        RunningFleet::start_with(directory, client(coder.url(), &coder.token()), options).await.seen().await;
    running.create("one").await.unwrap();
    eventually("the first is being built", async || coder.workspaces().len() == 1).await;
    let create = running.create("two").await.unwrap().operation.unwrap();
    cancel(&running, create, LONG).await.unwrap();
    running.is_gone("two").await;
    coder.set_pace(Pace::PerRead);
    running.becomes("one", AgentStatus::Idle).await;
    settled(&running).await;
    let names: Vec<String> = coder.workspaces().into_iter().map(|found| found.name).collect();
    assert_eq!(names, ["one"]);
}

#[tokio::test]
async fn a_delete_that_was_not_sent_can_be_taken_back() {
    let coder = stub(Pace::Instant).await;
    let mut proxy = FaultProxy::start(coder.url()).await;
    let running = RunningFleet::start(&proxy.url(), &coder.token()).await.seen().await;
    running.create("one").await.unwrap();
    running.becomes("one", AgentStatus::Idle).await;
    settled(&running).await;
    proxy.down().await;
    eventually("the outage is noticed", async || !running.fleet.health().now().is_reachable()).await;
    running.delete("one").await.unwrap();
    let delete = running.store.operations_open().await.unwrap()[0].id;
    let canceled = cancel(&running, delete, LONG).await.unwrap();
    let left = "the delete of agent 'one' is canceled: it was canceled before any request to Coder";
    assert_eq!(canceled.message, left);
    proxy.up().await;
    running.becomes("one", AgentStatus::Idle).await;
    assert_eq!(coder.workspaces()[0].builds, 1);
}

#[tokio::test]
async fn only_what_is_under_way_and_ones_own_can_be_canceled() {
    let scene = ready().await;
    let create =
        scene.running.store.operations_of(scene.running.show("one").await.unwrap().agent.id, 1).await;
    let create = create.unwrap()[0].id;
    let ended = cancel(&scene.running, create, NOT_AT_ALL).await.unwrap_err();
    let absent = cancel(&scene.running, OperationId::fresh(), NOT_AT_ALL).await.unwrap_err();
    assert_eq!(
        (ended.code(), ended.to_string(), ended.next_action()),
        (
            Code::NoTask,
            format!("operation '{create}' of agent 'one' has ended (done); there is nothing to cancel"),
            "Call show_agent for 'one' to see its current state.".to_owned()
        )
    );
    assert_eq!(
        (absent.code(), absent.next_action()),
        (Code::NotFound, "Call list_operations to see all operations.".to_owned())
    );
    let mut elsewhere = caller(RoleKind::Manager, "manager");
    elsewhere.principal.projects = AllowedProjects::Only(vec!["dataone".to_owned()]);
    let request = CancelOperation { id: create.to_string(), wait: NOT_AT_ALL };
    let refused = scene.running.fleet.operation_cancel(&elsewhere, request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Forbidden);
    assert_eq!(listed(&scene.running, &elsewhere, EndedOperations::Include).await, rows(&[]));
    let here = caller(RoleKind::Manager, "manager");
    assert_eq!(listed(&scene.running, &here, EndedOperations::Include).await, rows(&[("create", "done")]));
}

#[tokio::test]
async fn a_create_is_canceled_on_the_embedded_coder_with_its_directory_and_processes() {
    // An agent that never answers keeps its create under way.
    let crew = Crew::on(LocalSite::new().with_silent_agents()).await;
    crew.create("one", "sleep 60").await;
    eventually("the agent's process runs", async || !crew.site.processes().is_empty()).await;
    let create = crew.running.store.operations_open().await.unwrap()[0].id;
    cancel(&crew.running, create, NOT_AT_ALL).await.unwrap();
    crew.running.is_gone("one").await;
    settled(&crew.running).await;
    assert_eq!((crew.site.workspace_names(), crew.site.processes()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_canceled_start_leaves_the_build_of_another_alone() {
    let scene = ready().await;
    scene.running.stop_agent("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Stopped).await;
    settled(&scene.running).await;
    scene.coder.set_pace(Pace::Held);
    let restart = scene.running.restart_agent("one").await.unwrap().operation.unwrap();
    eventually("the restart is sent", async || scene.coder.workspaces()[0].builds == 3).await;
    scene.running.store.operation_end(restart, &OperationEnd::Done, Utc::now()).await.unwrap();
    let agent = scene.running.show("one").await.unwrap().agent.id;
    let start = Operation::accepted(agent, OperationKind::Start, "ann", Utc::now());
    scene.running.store.operation_accept(&start, None).await.unwrap();
    let canceled = cancel(&scene.running, start.id, LONG).await.unwrap();
    let left = "the start of agent 'one' is canceled: it was canceled before any request to Coder";
    assert_eq!(canceled.message, left);
    scene.coder.set_pace(Pace::PerRead);
    scene.running.becomes("one", AgentStatus::Idle).await;
}

#[tokio::test]
async fn clients_that_wait_for_a_canceled_operation_are_told_so() {
    let scene = ready().await;
    scene.coder.set_pace(Pace::Held);
    let fleet = &scene.running.fleet;
    let stop = ChangeAgent { wait: LONG, ..change_command("one") };
    let caller = operator();
    let canceler = async || {
        eventually("the stop is sent", async || scene.coder.workspaces()[0].builds == 2).await;
        let open = scene.running.store.operations_open().await.unwrap();
        cancel(&scene.running, open[0].id, NOT_AT_ALL).await.unwrap();
        eventually("Coder cancels the build", async || {
            let status = scene.coder.workspace("one")["latest_build"]["job"]["status"].clone();
            status == "canceling" || status == "canceled"
        })
        .await;
        scene.coder.set_pace(Pace::PerRead);
    };
    let (stopped, ()) = tokio::join!(fleet.agent_stop(&caller, stop), canceler());
    let message = stopped.unwrap().message;
    assert!(message.starts_with("agent 'one': stop canceled: its build was canceled; it is "), "{message}");
}

/// One agent's operation can neither be ended nor begun; those of others go on, and it is tried again.
#[tokio::test]
async fn a_row_that_cannot_be_written_holds_up_its_own_agent_alone() {
    let scene = ready().await;
    scene.running.create("two").await.unwrap();
    scene.running.becomes("two", AgentStatus::Idle).await;
    settled(&scene.running).await;
    let path = scene.running.directory.path().join("fleet.db");
    let mut database = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    let agent = scene.running.show("one").await.unwrap().agent.id;
    let mut stop = Operation::accepted(agent, OperationKind::Stop, "ann", Utc::now());
    stop.cancel = Some(CancelRequest { by: "ann".into(), at: Utc::now() });
    let refuse = format!(
        "CREATE TRIGGER refuse BEFORE UPDATE OF ended_at ON operations WHEN hex(OLD.id) = '{}' \
         BEGIN SELECT RAISE(ABORT, 'no'); END",
        stop.id.0.simple().to_string().to_uppercase()
    );
    sqlx::query(sqlx::AssertSqlSafe(refuse)).execute(&mut database).await.unwrap();
    scene.running.store.operation_accept(&stop, None).await.unwrap();
    let request = CancelRequest { by: "ann".into(), at: Utc::now() };
    scene.running.store.operation_cancel(stop.id, &request).await.unwrap();
    scene.running.stop_agent("two").await.unwrap();
    scene.running.becomes("two", AgentStatus::Stopped).await;
    sqlx::query("DROP TRIGGER refuse").execute(&mut database).await.unwrap();
    settled(&scene.running).await;
    let ended = scene.running.store.operation_by_id(stop.id).await.unwrap().unwrap();
    assert_eq!(ended.state(), OperationState::Canceled);
}

#[tokio::test]
async fn a_build_under_way_keeps_its_slot_across_a_restart_of_the_server() {
    let coder = stub(Pace::Held).await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let options = FleetOptions { parallel_builds: NonZeroUsize::MIN, ..fleet_options() };
    let connect = || client(coder.url(), &coder.token());
    let running = RunningFleet::start_with(directory, connect(), options.clone()).await.seen().await;
    running.create("one").await.unwrap();
    eventually("the first is being built", async || coder.workspaces().len() == 1).await;
    let directory = running.stop().await;
    let running = RunningFleet::start_with(directory, connect(), options).await.seen().await;
    eventually("its build counts again", async || {
        running.fleet.fleet_status(&operator()).await.unwrap().slots.used == 1
    })
    .await;
    coder.set_pace(Pace::PerRead);
    running.becomes("one", AgentStatus::Idle).await;
}

#[tokio::test]
async fn the_list_of_one_agent_goes_back_however_much_others_did() {
    let scene = ready().await;
    let agent = scene.running.show("one").await.unwrap().agent.id;
    scene.running.create("two").await.unwrap();
    scene.running.becomes("two", AgentStatus::Idle).await;
    settled(&scene.running).await;
    for _ in 0..1_000 {
        let mut done = Operation::accepted(agent, OperationKind::Start, "ann", Utc::now());
        done.end = Some(OperationEnd::Done);
        scene.running.store.operation_accept(&done, None).await.unwrap();
    }
    let request = ListOperations {
        agent: Some("TWO".to_owned()),
        ended: EndedOperations::Include,
        page: PageRequest::parse(1, 100).unwrap(),
    };
    let page = scene.running.fleet.operation_list(&operator(), request).await.unwrap();
    assert_eq!(page.items.len(), 1);
}
