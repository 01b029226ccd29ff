//! Waits for a workspace by watching it, so that no rate limit is used up by asking.

use std::time::Duration;

use fleet_mcp::coder::wire::Workspace;
use fleet_mcp::coder::{Client, WorkspaceEvent};
use futures_util::StreamExt;
use uuid::Uuid;

const DEADLINE: Duration = Duration::from_secs(120);

/// The workspace once it is as wanted; the test fails when it never is.
pub(crate) async fn watched(
    client: &Client,
    workspace: Uuid,
    wanted: impl Fn(&Workspace) -> bool,
) -> Workspace {
    let mut last = None;
    let found = tokio::time::timeout(DEADLINE, async {
        let mut events = client.workspace_watch(workspace).await.unwrap();
        while let Some(event) = events.next().await {
            if let WorkspaceEvent::Workspace(workspace) = event.unwrap() {
                if wanted(&workspace) {
                    return Some(*workspace);
                }
                last = Some(workspace);
            }
        }
        None
    });
    match found.await {
        Ok(Some(workspace)) => workspace,
        Ok(None) => panic!("the stream ended; last seen: {last:#?}"),
        Err(_) => panic!("never as wanted; last seen: {last:#?}"),
    }
}
