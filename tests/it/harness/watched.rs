//! Waits for a workspace by watching it, so that no rate limit is used up by asking.

use std::time::Duration;

use fleet_mcp::coder::wire::Workspace;
use futures_util::StreamExt;
use reqwest::Method;
use sse_stream::SseStream;
use uuid::Uuid;

use super::Api;

const DEADLINE: Duration = Duration::from_secs(120);

/// The workspace once it is as wanted; the test fails when it never is.
pub(crate) async fn watched(api: &Api, workspace: Uuid, wanted: impl Fn(&Workspace) -> bool) -> Workspace {
    let mut last = None;
    let found = tokio::time::timeout(DEADLINE, async {
        let path = format!("/api/v2/workspaces/{workspace}/watch");
        let response = api.request(Method::GET, &path).send().await.unwrap().error_for_status().unwrap();
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        while let Some(event) = events.next().await {
            let event = event.unwrap();
            if event.event.as_deref() != Some("data") {
                continue;
            }
            let workspace = serde_json::from_str(&event.data.unwrap()).unwrap();
            if wanted(&workspace) {
                return Some(workspace);
            }
            last = Some(workspace);
        }
        None
    });
    match found.await {
        Ok(Some(workspace)) => workspace,
        Ok(None) => panic!("the stream ended; last seen: {last:#?}"),
        Err(_) => panic!("never as wanted; last seen: {last:#?}"),
    }
}
