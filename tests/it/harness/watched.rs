//! Waits for a workspace by reading it again and again, past the rate limit.

use std::time::Duration;

use fleet_mcp::coder::wire::Workspace;
use reqwest::Method;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Api, read};

const DEADLINE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

/// The workspace once it is as wanted; the test fails when it never is.
pub(crate) async fn watched(api: &Api, workspace: Uuid, wanted: impl Fn(&Workspace) -> bool) -> Workspace {
    let path = format!("/api/v2/workspaces/{workspace}?include_deleted=true");
    let deadline = Instant::now() + DEADLINE;
    loop {
        let request = api.request(Method::GET, &path).header("X-Coder-Bypass-Ratelimit", "true");
        let reply = read(request).await.expect("the request is answered");
        assert_eq!(reply.status, 200, "{}", reply.body);
        let last = serde_json::from_value(reply.body).expect("a workspace");
        if wanted(&last) {
            return last;
        }
        assert!(Instant::now() < deadline, "never as wanted; last seen: {last:#?}");
        sleep(PAUSE).await;
    }
}
