//! An agent's process that ends although nothing stopped it: started again by the server, a few times in a row.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{LocalSite, RunningLocal, eventually, is_over, is_ready, kill};

fn impatient() -> LocalSite {
    let mut site = LocalSite::new();
    site.options.limits.respawn.first = Duration::from_millis(1);
    site
}

/// Kills the one process that stays in the workspace.
async fn kill_agent(site: &LocalSite) {
    let mut processes = Vec::new();
    eventually("one process is left", async || {
        processes = site.processes();
        processes.len() == 1
    })
    .await;
    processes.into_iter().for_each(kill);
}

/// Waits until this build is over and gives its status, reason and error.
async fn after(local: &RunningLocal, id: &Value, number: i64) -> (String, String, Option<String>) {
    let path = format!("/api/v2/workspaces/{}", id.as_str().unwrap());
    let mut build = Value::Null;
    eventually("the build is over", async || {
        build = local.api().get(&path).await.body["latest_build"].clone();
        build["build_number"] == number && build["job"]["completed_at"].is_string()
    })
    .await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&build["status"]), text(&build["reason"]), build["job"]["error"].as_str().map(str::to_owned))
}

fn running() -> (String, String, Option<String>) {
    ("running".to_owned(), "autostart".to_owned(), None)
}

#[tokio::test]
async fn a_killed_agent_is_started_again_and_is_another_one() {
    let site = impatient();
    let local = site.start().await;
    let before = local.create_ready("agent").await;
    kill_agent(&site).await;
    assert_eq!(after(&local, &json!(before.id), 2).await, running());
    let now = local.until(&json!(before.id), |now| is_ready(now) && now.health.healthy).await;
    let agent =
        |workspace: &fleet_mcp::coder::wire::Workspace| workspace.latest_build.resources[0].agents[0].id;
    assert_ne!(agent(&now), agent(&before));
    assert_eq!(site.runners().len(), 1);
    local.coder.stop().await;
}

#[tokio::test]
async fn an_agent_that_keeps_ending_stays_failed_also_over_crashes_until_it_is_started() {
    let site = impatient();
    let doomed = site.start_doomed().await;
    let id = json!(doomed.local.create_ready("agent").await.id);
    for number in [2, 3] {
        kill_agent(&site).await;
        assert_eq!(after(&doomed.local, &id, number).await, running());
    }
    doomed.crash().await;
    let local = site.start().await;
    kill_agent(&site).await;
    assert_eq!(after(&local, &id, 4).await, running());
    kill_agent(&site).await;
    let reason = "the agent's process ended 4 times within 10 minutes, so it is not restarted automatically; read its log, then start the agent";
    let failed = ("failed".to_owned(), "autostart".to_owned(), Some(reason.to_owned()));
    assert_eq!(after(&local, &id, 5).await, failed);
    assert_eq!((site.processes(), site.workspace_names()), (Vec::new(), vec!["agent".to_owned()]));
    local.build(&id, &json!({ "transition": "start" })).await;
    let asked = ("running".to_owned(), "initiator".to_owned(), None);
    assert_eq!(after(&local, &id, 6).await, asked);
    kill_agent(&site).await;
    assert_eq!(after(&local, &id, 7).await, running());
    local.coder.stop().await;
}

#[tokio::test]
async fn a_stop_before_the_agent_is_started_again_stays_a_stop() {
    let mut site = LocalSite::new();
    // Enough for the stop to arrive before it on a loaded machine.
    site.options.limits.respawn.first = Duration::from_secs(5);
    let local = site.start().await;
    let id = json!(local.create_ready("agent").await.id);
    kill_agent(&site).await;
    local.until(&id, |now| !now.health.healthy).await;
    assert_eq!(local.build(&id, &json!({ "transition": "stop" })).await.status, 201);
    local.until(&id, is_over).await;
    // Another agent that was killed later and runs again shows that the delay is over.
    let other = json!(local.create_ready("other").await.id);
    kill_agent(&site).await;
    assert_eq!(after(&local, &other, 2).await, running());
    let stopped = ("stopped".to_owned(), "initiator".to_owned(), None);
    assert_eq!(after(&local, &id, 2).await, stopped);
    local.coder.stop().await;
}

#[tokio::test]
async fn an_agent_that_is_killed_before_it_answers_is_started_again_within_its_build() {
    let mut site = impatient();
    // The first process waits to be killed, the next one is the real runner.
    let mark = site.directory.path().join("was-here");
    let runner = std::mem::take(&mut site.options.runner.program);
    let script =
        format!("[ -e {0} ] && exec {1} agent; touch {0}; exec sleep 600", mark.display(), runner.display());
    site.options.runner.program = "/bin/sh".into();
    site.options.runner.arguments = vec!["-c".to_owned(), script];
    site.options.agent_files.clear();
    let local = site.start().await;
    let id = local.create(crate::harness::TEMPLATE, "agent", "").await.body["id"].clone();
    eventually("the first process waits", async || mark.exists()).await;
    kill_agent(&site).await;
    let asked = ("running".to_owned(), "initiator".to_owned(), None);
    assert_eq!(after(&local, &id, 1).await, asked);
    assert_eq!(site.runners().len(), 1);
    local.coder.stop().await;
}
