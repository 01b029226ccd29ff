//! Cancels at every step at which a build can be held: it ends as canceled and leaves no hidden processes or files.

use serde_json::{Value, json};

use super::here::{git, repository};
use crate::harness::{LocalSite, RunningLocal, TEMPLATE, eventually, is_over, is_ready};

/// Waits until the build works at this step.
async fn reaches(local: &RunningLocal, build: &Value, stage: &str) {
    let id = build.as_str().unwrap().parse().unwrap();
    let client = local.client();
    eventually(stage, async || {
        client.build_logs(id, None).await.unwrap().last().is_some_and(|line| line.stage == stage)
    })
    .await;
}

/// Cancels a build at this step and waits for its end.
async fn canceled_at(local: &RunningLocal, workspace: &Value, build: &Value, stage: &str) {
    reaches(local, build, stage).await;
    local.cancel(build).await;
    assert_eq!(local.until(workspace, is_over).await.latest_build.status, "canceled", "{stage}");
}

#[tokio::test]
async fn a_first_start_that_waits_for_its_agent_leaves_nothing() {
    let site = LocalSite::new().with_silent_agents();
    let local = site.start().await;
    let made = local.create(TEMPLATE, "agent", "").await.body;
    canceled_at(&local, &made["id"], &made["latest_build"]["id"], "Waiting for the agent").await;
    assert_eq!((site.workspace_names(), site.processes()), (Vec::new(), Vec::new()));
    local.coder.stop().await;
}

#[tokio::test]
async fn a_first_start_that_clones_leaves_nothing_in_the_callers_repository() {
    let caller = repository();
    // A file that is never read to its end holds git in the middle of its work.
    let blob = git(caller.path(), &["rev-parse", "HEAD:file"]);
    let object = caller.path().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    std::fs::remove_file(&object).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&object).status().unwrap().success());
    let site = LocalSite::new().here(caller.path());
    let local = site.start().await;
    let made = local.create("here", "helper", "").await.body;
    let refs = || git(caller.path(), &["for-each-ref", "--format=%(refname)"]);
    let ours = ["fleet/agents/helper", "fleet/published/helper", "heads/fleet/helper", "heads/main"];
    let ours = ours.map(|name| format!("refs/{name}")).join("\n");
    eventually("the branch is made", async || refs() == ours).await;
    canceled_at(&local, &made["id"], &made["latest_build"]["id"], "Cloning the repository").await;
    assert_eq!((site.workspace_names(), refs().as_str()), (Vec::new(), "refs/heads/main"));
    local.coder.stop().await;
}

/// An agent whose engine ignores signals, so that every build that ends its processes takes a while.
async fn deaf(site: &LocalSite, local: &RunningLocal) -> Value {
    let made = local.create(TEMPLATE, "deaf", "hang").await.body;
    local.until(&made["id"], is_ready).await;
    site.has_deaf_engine().await;
    made["id"].clone()
}

#[tokio::test]
async fn every_build_that_ends_processes_leaves_none_and_keeps_the_files() {
    for transition in ["start", "stop", "delete"] {
        let site = LocalSite::new();
        let local = site.start().await;
        let id = deaf(&site, &local).await;
        let build = local.build(&id, &json!({ "transition": transition })).await.body;
        canceled_at(&local, &id, &build["id"], "Ending processes").await;
        let left = (site.workspace_names(), site.processes());
        assert_eq!(left, (vec!["deaf".to_owned()], Vec::new()), "{transition}");
        local.build(&id, &json!({ "transition": "delete" })).await;
        assert_eq!(local.until(&id, is_over).await.latest_build.status, "deleted");
        assert_eq!(site.workspace_names(), Vec::<String>::new());
        local.coder.stop().await;
    }
}
