//! Crashes at moments that a kill from outside seldom hits: what was promised is kept, and nothing is left over.

use std::path::Path;

use serde_json::{Value, json};

use super::here::{git, repository};
use crate::harness::{LocalSite, RunningLocal, eventually, is_over, is_ready, kill, project};

fn branches(caller: &Path) -> String {
    git(caller, &["branch", "--format=%(refname:short)"])
}

/// Cuts the first start of an agent of `here` short, when its clone is there and its process does not answer.
async fn cut_short(site: &LocalSite, caller: &Path) -> Value {
    let doomed = site.start_doomed().await;
    let created = doomed.local.create("here", "helper", "").await.body;
    eventually("the agent's process runs", async || !site.processes().is_empty()).await;
    assert_eq!(branches(caller), "fleet/helper\nmain");
    doomed.crash().await;
    created["id"].clone()
}

async fn left_by_a_failure(site: &LocalSite, caller: &Path, id: &Value) {
    let local = site.start().await;
    let failed = local.until(id, is_over).await.latest_build;
    assert_eq!((failed.status.as_str(), failed.build_number), ("failed", 1));
    assert_eq!((site.workspace_names(), site.processes()), (Vec::new(), Vec::new()));
    let ours = git(caller, &["for-each-ref", "refs/fleet"]);
    assert_eq!((ours.as_str(), branches(caller).as_str()), ("", "main"));
    local.coder.stop().await;
}

#[tokio::test]
async fn a_first_start_that_a_crash_cut_short_and_that_fails_then_leaves_nothing_in_the_callers_repository() {
    let caller = repository();
    let mut site = LocalSite::new().here(caller.path()).with_silent_agents();
    let id = cut_short(&site, caller.path()).await;
    site.options.build_deadline = std::time::Duration::from_millis(300);
    left_by_a_failure(&site, caller.path(), &id).await;
}

#[tokio::test]
async fn failed_first_start_leaves_nothing_after_its_project_was_removed() {
    let caller = repository();
    let site = LocalSite::new().here(caller.path()).with_silent_agents();
    let id = cut_short(&site, caller.path()).await;
    site.processes().into_iter().for_each(kill);
    site.files.projects.lock().unwrap().retain(|project| project.name != "here");
    left_by_a_failure(&site, caller.path(), &id).await;
}

/// Makes the last build of a workspace what a crash had left of it.
fn rewrite_last_job(site: &LocalSite, id: &Value, job: Value) {
    let path = site.data_dir().join(format!("coder/workspaces/{}.json", id.as_str().unwrap()));
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(file["content"]["is_to_resume"], true);
    let last = file["content"]["builds"].as_array_mut().unwrap().last_mut().unwrap();
    assert_eq!((&last["transition"], &last["reason"]), (&json!("stop"), &json!("autostop")));
    last["job"] = job;
    std::fs::write(&path, file.to_string()).unwrap();
}

#[tokio::test]
async fn a_workspace_runs_again_though_the_server_was_killed_before_its_clean_stop_was_over() {
    let running = json!({ "running": { "started_at": "2026-01-01T00:00:00Z" } });
    for job in [json!("pending"), running] {
        let site = LocalSite::new();
        let local = site.start().await;
        let id = json!(local.create_ready("runs").await.id);
        local.coder.stop().await;
        rewrite_last_job(&site, &id, job);
        let local = site.start().await;
        let again = local.until(&id, |now| now.latest_build.build_number == 3 && is_ready(now)).await;
        assert_eq!(again.latest_build.reason, "autostart");
        local.coder.stop().await;
    }
}

/// A site with one slot, which a clone that never ends can take.
async fn with_one_slot(silent: &tokio::net::TcpListener) -> LocalSite {
    let address = format!("git://{}/nothing", silent.local_addr().unwrap());
    let mut site = LocalSite::new().project(project("slow", Some(&address)));
    site.options.slots = 1.try_into().unwrap();
    site
}

/// Cancels a stop while it waits for the slot: the agent still runs then, and nothing shows it.
async fn cancel_a_stop(local: &RunningLocal, silent: &tokio::net::TcpListener) -> tokio::net::TcpStream {
    let id = json!(local.create_ready("runs").await.id);
    local.create("slow", "blocks", "").await;
    let (connection, _) = silent.accept().await.unwrap();
    let stop = local.build(&id, &json!({ "transition": "stop" })).await.body;
    local.cancel(&stop["id"]).await;
    assert_eq!(local.until(&id, is_over).await.latest_build.status, "canceled");
    connection
}

#[tokio::test]
async fn an_agent_whose_stop_was_canceled_while_it_waited_ends_all_the_same() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = with_one_slot(&silent).await;
    let local = site.start().await;
    let _connection = cancel_a_stop(&local, &silent).await;
    eventually("the agent is gone", async || site.runners().is_empty()).await;
    local.coder.stop().await;
    assert_eq!(site.processes(), Vec::<u32>::new());
}

#[tokio::test]
async fn an_agent_whose_stop_was_canceled_while_it_waited_does_not_outlive_a_crash() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = with_one_slot(&silent).await;
    let doomed = site.start_doomed().await;
    let _connection = cancel_a_stop(&doomed.local, &silent).await;
    doomed.crash().await;
    let local = site.start().await;
    assert_eq!(site.processes(), Vec::<u32>::new());
    local.coder.stop().await;
}
