//! A project's container: asked for by name in every terminal that is opened for its runs.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use fleet_mcp::app::error::Code;
use fleet_mcp::app::tasks::{CancelTask, StartTask};
use fleet_mcp::coder::Deleted;
use fleet_mcp::coder::exec::Command;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::{Escalation, WhenBusy};
use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

use super::fleet::{Home, script};
use super::sh;
use crate::contract::agent_id;
use crate::harness::{LocalSite, RunningFleet, client, eventually, operator, project};

const NONE: &str = "The embedded Coder has no containers.";

type Seen = Arc<Mutex<Vec<String>>>;

/// A server whose terminals close at once.
async fn recording(State(seen): State<Seen>, upgrade: WebSocketUpgrade, request: Request) -> Response {
    seen.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
    upgrade.on_upgrade(async |socket| drop(socket))
}

#[tokio::test]
async fn a_command_for_a_container_asks_for_its_terminal() {
    let seen = Seen::default();
    let router = Router::new().fallback(any(recording)).with_state(Arc::clone(&seen));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let command = Command { container: Some("dev box".to_owned()), ..sh("true") };
    let client = client(&url, "token");
    let asked = eventually("a terminal is asked for", async || !seen.lock().unwrap().is_empty());
    tokio::select! {
        // It tries again, since a terminal that closes at once may be a cut connection.
        _ = client.exec(Uuid::nil(), &command) => {}
        () = asked => {}
    }
    let query = seen.lock().unwrap().first().cloned().unwrap();
    assert!(query.ends_with("&container=dev+box"), "{query}");
}

#[tokio::test]
async fn the_embedded_coder_refuses_a_terminal_in_a_container() {
    let home = Home::new().await;
    let client = home.local.client();
    let workspace = client.workspace_by_name("me", "one", Deleted::Exclude).await.unwrap();
    let command = Command { container: Some("dev".to_owned()), ..sh("true") };
    let refused = client.exec(agent_id(&workspace), &command).await.unwrap_err();
    assert!(refused.to_string().contains(NONE), "{refused}");
    home.stop().await;
}

#[tokio::test]
async fn the_embedded_coder_makes_no_agent_for_a_project_that_works_in_a_container() {
    let site = LocalSite::new().project(project("setup", None));
    let projects = site.directory.path().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    std::fs::write(projects.join("setup.toml"), "container = 'dev'").unwrap();
    let local = site.start().await;
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let running =
        RunningFleet::start_embedded(directory, (&local.url, &local.token), projects).await.seen().await;
    let refused = running.create("one").await.unwrap_err();
    let expected = "project 'setup' uses container 'dev', but the embedded Coder has no containers: remove 'container' from the project file, or use a Coder deployment";
    assert_eq!((refused.code(), refused.to_string().as_str()), (Code::InvalidInput, expected));
    running.stop().await;
    local.coder.stop().await;
}

/// The embedded Coder has no containers and says so, which shows where everything goes.
#[tokio::test]
async fn provisioning_and_rescue_of_an_agent_go_to_the_container_of_its_project() {
    let home = Home::with_callback("container = 'dev'").await;
    let failure =
        async || home.running.show("one").await.unwrap().provision_state.failure.clone().unwrap_or_default();
    eventually("it is not given its things", async || failure().await.contains(NONE)).await;
    home.running.delete("one").await.unwrap();
    home.running.is_gone("one").await;
    let rescues = home.fleet().rescue_list(&operator(), PageRequest::parse(1, 20).unwrap()).await.unwrap();
    let outcome = rescues.items[0].rescue.outcome.to_string();
    assert!(outcome.starts_with("its work was not saved: ") && outcome.contains(NONE), "{outcome}");
    home.stop().await;
}

#[tokio::test]
async fn the_runs_of_a_project_go_to_its_container() {
    let home = Home::with_project("container = 'dev'").await;
    let id = home.fleet().test_run_start(home.agent, script("true")).await.unwrap();
    assert_eq!(home.store().run_by_id(id).await.unwrap().unwrap().container.as_deref(), Some("dev"));
    home.stop().await;
}

#[tokio::test]
async fn the_signals_of_a_cancel_go_to_the_container_of_its_project() {
    let home = Home::with_project("container = 'dev'").await;
    let task = StartTask {
        name: "one".to_owned(),
        description: "sleep 600".to_owned(),
        when_busy: WhenBusy::Reject,
        timeout: None,
        request: None,
    };
    home.fleet().task_start(&operator(), task).await.unwrap();
    home.running.becomes("one", AgentStatus::Busy).await;
    eventually("the engine runs", async || home.site.engines().len() == 1).await;
    let runner = Pid::from_raw(home.site.runner().cast_signed()).unwrap();
    kill_process(runner, Signal::STOP).unwrap();
    let cancel = CancelTask { name: "one".to_owned(), all: false, escalate: false };
    let canceled = home.fleet().task_cancel(&operator(), cancel).await.unwrap();
    let n_engines = home.site.engines().len();
    kill_process(runner, Signal::CONT).unwrap();
    assert_eq!((canceled.reached, n_engines), (Escalation::None, 1));
    home.stop().await;
}
