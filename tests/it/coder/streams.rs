//! Event streams, through to typed items.

use fleet_mcp::coder::{AppEvent, AppRequest, ErrorKind, WorkspaceEvent};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;
use uuid::Uuid;
use wiremock::{MockServer, ResponseTemplate};

use super::{app, client, fixture, server};

async fn event_server(text: String) -> MockServer {
    server(ResponseTemplate::new(200).set_body_raw(text, "text/event-stream")).await
}

#[tokio::test]
async fn watching_a_workspace_tells_pings_changes_and_failures() {
    let workspace = fixture("054-workspace-get-ready")["body"].clone();
    let failure = json!({"message": "Internal error fetching workspace."});
    let text = format!("event: ping\n\nevent: data\ndata: {workspace}\n\nevent: error\ndata: {failure}\n\n");
    let server = event_server(text).await;
    let events = client(&server.uri()).workspace_watch(Uuid::nil()).await.unwrap();
    let events: Vec<_> = events.map(|event| event.map_err(|error| error.kind())).collect().await;
    let workspace = Box::new(serde_json::from_value(workspace).unwrap());
    assert_eq!(
        events,
        [Ok(WorkspaceEvent::Ping), Ok(WorkspaceEvent::Workspace(workspace)), Err(ErrorKind::Server)]
    );
}

#[tokio::test]
async fn metadata_is_the_first_event_that_is_not_a_ping() {
    let recorded = fixture("063-agent-watch-metadata-sse")["events"][0]["data"].clone();
    let text = format!("event: ping\n\nevent: data\ndata: {recorded}\n\nevent: data\ndata: []\n\n");
    let server = event_server(text).await;
    let metadata = client(&server.uri()).agent_metadata(Uuid::nil()).await.unwrap();
    assert_eq!(metadata, serde_json::from_value::<Vec<_>>(recorded).unwrap());
    assert!(!metadata.is_empty());
}

#[tokio::test]
async fn metadata_of_a_stream_that_says_nothing_is_an_error() {
    let server = event_server("event: ping\n\n".to_owned()).await;
    let error = client(&server.uri()).agent_metadata(Uuid::nil()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cut);
}

#[tokio::test]
async fn app_events_pass_as_the_app_wrote_them() {
    let server =
        event_server("id: 4\nevent: status_change\ndata: {\"status\":\"stable\"}\n\ndata: x\n\n".into())
            .await;
    let stream = client(&server.uri()).app_stream(&app(), AppRequest::get("/events")).await.unwrap();
    let events: Vec<AppEvent> = stream.try_collect().await.unwrap();
    let first = AppEvent {
        event: Some("status_change".to_owned()),
        data: r#"{"status":"stable"}"#.to_owned(),
        id: Some("4".to_owned()),
    };
    assert_eq!(events, [first, AppEvent { event: None, data: "x".to_owned(), id: None }]);
}

#[tokio::test]
async fn a_page_in_place_of_a_stream_is_no_stream() {
    let server = server(ResponseTemplate::new(200).set_body_raw("<!doctype html>", "text/html")).await;
    let error = client(&server.uri()).workspace_watch(Uuid::nil()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Undecodable);
}

#[tokio::test]
async fn a_stream_that_needs_a_login_is_unauthorized() {
    let login = ResponseTemplate::new(303).insert_header("Location", "/login?redirect=x");
    let server = server(login).await;
    let error = client(&server.uri()).app_stream(&app(), AppRequest::get("/events")).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
}
