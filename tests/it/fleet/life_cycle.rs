//! From creation to deletion, each change as one operation with one build.

use fleet_mcp::app::agents::ListAgents;
use fleet_mcp::app::error::Code;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::history::HistoryKind;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::view::agent::AgentDetail;

use crate::harness::{Behaviour, Pace, Scene, WorkspaceSummary, eventually, list_all, operator, template};

fn builds(scene: &Scene, name: &str) -> Option<WorkspaceSummary> {
    scene.coder.workspaces().into_iter().find(|workspace| workspace.name == name)
}

#[tokio::test]
async fn an_agent_goes_from_pending_to_idle_to_stopped_to_idle_to_gone() {
    let scene = Scene::new(Pace::PerRead).await;
    let created = scene.running.create("One").await.unwrap();
    assert!(created.operation.is_some());
    scene.running.becomes("one", AgentStatus::Idle).await;
    scene.running.stop_agent("ONE").await.unwrap();
    scene.running.becomes("one", AgentStatus::Stopped).await;
    scene.running.start_agent("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    assert_eq!(scene.running.show("one").await.unwrap().agent.sighting.generation, 3);
    scene.running.restart_agent("one").await.unwrap();
    eventually("the restart brought build 5", async || {
        scene.running.show("one").await.unwrap().agent.sighting.generation == 5
    })
    .await;
    scene.running.becomes("one", AgentStatus::Idle).await;
    let shown = AgentDetail::from(&*scene.running.show("one").await.unwrap());
    let shown = serde_json::to_value(shown).unwrap();
    assert_eq!(
        (&shown["generation"], &shown["starts"]),
        (&5.into(), &3.into()),
        "every other build was a start"
    );
    scene.running.delete("one").await.unwrap();
    scene.running.is_gone("one").await;
    assert_eq!(builds(&scene, "One").unwrap().builds, 6);
    assert_eq!(builds(&scene, "One").unwrap().status, "deleted");
}

#[tokio::test]
async fn start_of_a_running_and_stop_of_a_stopped_agent_make_no_build() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    let again = scene.running.start_agent("one").await.unwrap();
    assert_eq!(again.operation, None);
    assert_eq!(again.message, "agent 'one' is already idle; nothing was changed");
    scene.running.stop_agent("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Stopped).await;
    assert_eq!(scene.running.stop_agent("one").await.unwrap().operation, None);
    assert_eq!(builds(&scene, "one").unwrap().builds, 2);
}

#[tokio::test]
async fn operations_of_one_agent_run_one_after_another_in_the_order_accepted() {
    let scene = Scene::new(Pace::PerRead).await;
    scene.running.create("one").await.unwrap();
    scene.running.stop_agent("one").await.unwrap();
    scene.running.start_agent("one").await.unwrap();
    eventually("all builds are done", async || builds(&scene, "one").is_some_and(|found| found.builds == 3))
        .await;
    scene.running.becomes("one", AgentStatus::Idle).await;
    let operations = scene
        .running
        .store
        .operations_of(scene.running.show("one").await.unwrap().agent.id, 9)
        .await
        .unwrap();
    let kinds: Vec<&str> = operations.iter().rev().map(|operation| operation.kind.word()).collect();
    assert_eq!(kinds, ["create", "stop", "start"]);
}

#[tokio::test]
async fn a_delete_overtakes_a_build_under_way_and_cancels_what_waits() {
    let scene = Scene::new(Pace::Held).await;
    scene.coder.template_add(template("slow").behaviour(Behaviour::Slow(50)));
    scene.running.create("one").await.unwrap();
    eventually("Coder has the workspace", async || builds(&scene, "one").is_some()).await;
    let id = scene.running.show("one").await.unwrap().agent.id;
    scene.running.restart_agent("one").await.unwrap();
    scene.running.delete("one").await.unwrap();
    assert_eq!(scene.running.status("one"), Some(AgentStatus::Deleting));
    scene.coder.set_pace(Pace::PerRead);
    scene.running.is_gone("one").await;
    eventually("no operation is open", async || {
        scene.running.store.operations_open().await.unwrap().is_empty()
    })
    .await;
    let operations = scene.running.store.operations_of(id, 9).await.unwrap();
    let ends: Vec<(&str, &str)> =
        operations.iter().rev().map(|op| (op.kind.word(), op.state().word())).collect();
    assert_eq!(ends, [("create", "canceled"), ("restart", "canceled"), ("delete", "done")]);
}

#[tokio::test]
async fn deleting_twice_is_one_delete_and_the_name_is_free_again() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    let (first, second) = tokio::join!(scene.running.delete("one"), scene.running.delete("one"));
    assert!(first.is_ok());
    assert!(second.is_ok() || second.is_err_and(|error| error.code() == Code::NotFound));
    scene.running.is_gone("one").await;
    assert_eq!(builds(&scene, "one").unwrap().builds, 2);
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
}

#[tokio::test]
async fn history_stays_readable_by_name_after_the_deletion() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    scene.coder.post_app_status("one", "working", "Reading the code");
    scene.running.becomes("one", AgentStatus::Busy).await;
    scene.running.delete("one").await.unwrap();
    scene.running.is_gone("one").await;
    let agent = scene.running.store.agent_newest_by_name("one").await.unwrap().unwrap();
    let page = scene
        .running
        .store
        .history_page(agent.id, None, PageRequest::parse(1, 20).unwrap())
        .await
        .unwrap()
        .page;
    let kinds: Vec<(HistoryKind, &str)> =
        page.items.iter().map(|e| (e.kind(), e.line().message.as_str())).collect();
    let unsaved = "agent 'one' is being deleted; its work was not saved: pty_connect: Coder answered 404: Route \
                   not found.";
    let expected = [
        (HistoryKind::Report, unsaved),
        (HistoryKind::Report, "Reading the code"),
        (HistoryKind::Task, "## Objective\nFix the login bug"),
    ];
    assert_eq!(kinds, expected);
    let error = scene.running.show("one").await.unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (Code::NotFound, "agent 'one' not found"));
}

#[tokio::test]
async fn deleted_agents_are_listed_only_when_asked_for_and_filters_hold_for_them_too() {
    let scene = Scene::new(Pace::Instant).await;
    for name in ["gone", "here"] {
        scene.running.create(name).await.unwrap();
        scene.running.becomes(name, AgentStatus::Idle).await;
    }
    scene.running.delete("gone").await.unwrap();
    scene.running.is_gone("gone").await;
    let names = async |statuses: Option<Vec<AgentStatus>>, project: Option<&str>| {
        let request = ListAgents { statuses, project: project.map(str::to_owned), ..list_all() };
        let listed = scene.running.fleet.agent_list(&operator(), request).await.unwrap();
        listed.page.items.iter().map(|state| state.agent.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, None).await, ["here"]);
    let deleted = || Some(vec![AgentStatus::Deleted]);
    assert_eq!(names(deleted(), None).await, ["gone"]);
    assert_eq!(names(deleted(), Some("Setup")).await, ["gone"]);
    assert!(names(deleted(), Some("dataone")).await.is_empty());
    assert_eq!(names(Some(vec![AgentStatus::Idle, AgentStatus::Deleted]), None).await, ["here", "gone"]);
}
