//! A project's container: asked for by name in every terminal that is opened for its runs.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use fleet_mcp::coder::exec::Command;
use uuid::Uuid;

use super::fleet::{Home, new_run};
use super::sh;
use crate::harness::{client, eventually};

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
async fn the_runs_of_a_project_go_to_its_container() {
    let home = Home::with_project("container = 'dev'").await;
    let id = home.fleet().start_run(new_run(home.agent, "true")).await.unwrap();
    assert_eq!(home.fleet().run_show(id).await.unwrap().container.as_deref(), Some("dev"));
    home.stop().await;
}
