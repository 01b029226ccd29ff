//! The app proxy: who may pass, and what stays behind.

use fleet_mcp::coder::{AppAddress, AppRequest};
use reqwest::Method;

use super::{Subject, on_every_coder};
use crate::harness::read;

#[tokio::test]
async fn an_agents_app_is_reached_by_cookie_and_not_without_a_token() {
    on_every_coder(async |subject: &Subject| {
        let workspace = subject.create_ready().await;
        let app = AppAddress {
            owner: workspace.owner_name.clone(),
            workspace: workspace.name.clone(),
            agent: None,
            slug: "ccw".to_owned(),
        };
        let status = subject.client.app_request(&app, AppRequest::get("/status")).await.unwrap();
        assert_eq!(status.status.as_u16(), 200);
        let path = format!("/@{}/{}/apps/ccw/status", workspace.owner_name, workspace.name);
        let bare = read(subject.api.bare(Method::GET, &path)).await.unwrap();
        assert_eq!(bare.status, 303);
        assert!(bare.headers["location"].to_str().unwrap().contains("/login?"));
        let header = read(subject.api.request(Method::GET, &path)).await.unwrap();
        assert_eq!(header.status, 200);
        let cookie = format!("coder_session_token={}", subject.token);
        let me = format!("/@me/{}/apps/ccw/status", workspace.name);
        let me = read(subject.api.bare(Method::GET, &me).header("Cookie", cookie)).await.unwrap();
        assert_eq!(me.status, 404);
    })
    .await;
}
