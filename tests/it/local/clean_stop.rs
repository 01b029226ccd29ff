//! A clean stop of the server: every workspace stops, no process is left, and the next start starts them again.

use serde_json::json;

use crate::harness::{LocalSite, TEMPLATE, is_over, is_ready, project};

#[tokio::test]
async fn running_workspaces_stop_and_start_again_and_stopped_ones_stay_stopped() {
    let site = LocalSite::new();
    let local = site.start().await;
    let running = json!(local.create_ready("runs").await.id);
    let stopped = json!(local.create_ready("rests").await.id);
    local.build(&stopped, &json!({ "transition": "stop" })).await;
    local.until(&stopped, is_over).await;
    let (url, token) = (local.url.clone(), local.token.clone());
    local.coder.stop().await;
    assert_eq!(site.processes(), Vec::<u32>::new());
    assert!(!site.data_dir().join("coder.json").exists());

    let local = site.start().await;
    assert_eq!((&local.url, &local.token), (&url, &token));
    let again = local.until(&running, is_ready).await.latest_build;
    assert_eq!((again.build_number, again.reason.as_str()), (3, "autostart"));
    let rests = local.until(&stopped, is_over).await.latest_build;
    assert_eq!((rests.build_number, rests.status.as_str()), (2, "stopped"));
    local.coder.stop().await;
}

#[tokio::test]
async fn a_start_under_way_is_broken_off_and_made_good_later() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("git://{}/nothing", silent.local_addr().unwrap());
    let site = LocalSite::new().project(project("slow", Some(&address)));
    let local = site.start().await;
    let created = local.create("slow", "waits", "").await.body;
    let connection = silent.accept().await.unwrap();
    local.coder.stop().await;
    assert_eq!((site.processes(), site.workspace_names()), (Vec::new(), Vec::new()));
    drop((connection, silent));

    let local = site.start().await;
    let failed = local.until(&created["id"], is_over).await.latest_build;
    assert_eq!((failed.build_number, failed.status.as_str()), (2, "failed"));
    local.coder.stop().await;
}

#[tokio::test]
async fn a_stopping_server_begins_nothing_new() {
    let site = LocalSite::new();
    let local = site.start().await;
    let (api, url) = (local.api(), local.url.clone());
    local.coder.stop().await;
    assert!(api.try_get("/api/v2/organizations").await.is_err(), "{url} is closed");
    let local = site.start().await;
    assert_eq!(local.create(TEMPLATE, "one", "").await.status, 201);
    local.coder.stop().await;
}
