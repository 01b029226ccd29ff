//! Event streams, through to typed items.

use fleet_mcp::coder::ErrorKind;
use uuid::Uuid;
use wiremock::{MockServer, ResponseTemplate};

use super::{client, fixture, server};

async fn event_server(text: String) -> MockServer {
    server(ResponseTemplate::new(200).set_body_raw(text, "text/event-stream")).await
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
async fn metadata_of_a_stream_that_says_nothing_or_fails_is_an_error() {
    let failure = r#"{"message":"Internal error fetching metadata."}"#;
    let failed = format!("event: ping\n\nevent: error\ndata: {failure}\n\n");
    for (text, kind) in [("event: ping\n\n", ErrorKind::Cut), (&failed, ErrorKind::Server)] {
        let server = event_server(text.to_owned()).await;
        let error = client(&server.uri()).agent_metadata(Uuid::nil()).await.unwrap_err();
        assert_eq!(error.kind(), kind);
    }
}

#[tokio::test]
async fn a_page_in_place_of_a_stream_is_no_stream() {
    let server = server(ResponseTemplate::new(200).set_body_raw("<!doctype html>", "text/html")).await;
    let error = client(&server.uri()).agent_metadata(Uuid::nil()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecodable);
}

#[tokio::test]
async fn a_stream_that_needs_a_login_is_unauthorized() {
    let login = ResponseTemplate::new(303).insert_header("Location", "/login?redirect=x");
    let server = server(login).await;
    let error = client(&server.uri()).agent_metadata(Uuid::nil()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
}
