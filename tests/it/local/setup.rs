//! What a workspace is made of, and how many are made at a time.

use std::path::Path;

use serde_json::Value;

use super::faults::with_shell;
use crate::harness::{LocalSite, eventually};

#[tokio::test]
async fn a_workspace_is_a_repository_the_fleets_files_and_the_runs() {
    let site = LocalSite::new();
    let local = site.start().await;
    local.create_ready("agent").await;
    let entries = std::fs::read_dir(site.workspace("agent")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["fleet", "repo", "runs"]);
    local.coder.stop().await;
}

#[tokio::test]
async fn three_builds_work_at_a_time_unless_the_settings_say_otherwise() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = LocalSite::new();
    let projects = site.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    let file = format!("repo = \"git://{}/nothing\"\n", silent.local_addr().unwrap());
    std::fs::write(projects.join("slow.toml"), file).unwrap();
    let (_child, api, _) = with_shell(&site, "", Path::new("/usr/bin:/bin")).await;
    for name in ["one", "two", "three", "four"] {
        assert_eq!(api.workspace_create("slow", name).await.status, 201);
    }
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(silent.accept().await.unwrap());
    }
    let mut jobs = Vec::new();
    eventually("three work", async || {
        let rows = api.get("/api/v2/workspaces").await.body["workspaces"].take();
        let job = |row: &Value| row["latest_build"]["job"].clone();
        jobs = rows.as_array().unwrap().iter().map(job).collect::<Vec<Value>>();
        jobs.iter().filter(|job| job["status"] == "running").count() >= 3
    })
    .await;
    let waiting: Vec<_> = jobs.iter().filter(|job| job["status"] == "pending").collect();
    let places: Vec<_> = waiting.iter().map(|job| (&job["queue_position"], &job["queue_size"])).collect();
    assert_eq!(places, [(&1.into(), &1.into())]);
}
