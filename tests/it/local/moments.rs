//! Moments in between: an agent that is frozen, files that change, a server that is stopping.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{CREATE, LocalSite, TEMPLATE, eventually, is_ready, project};

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

async fn agent(local: &crate::harness::RunningLocal) -> Value {
    let shown = local.api().get("/api/v2/users/me/workspace/agent").await.body;
    let agent = &shown["latest_build"]["resources"][0]["agents"][0];
    json!({
        "build": shown["latest_build"]["status"],
        "status": agent["status"],
        "lifecycle": agent["lifecycle_state"],
        "app": agent["apps"][0]["health"],
        "reason": agent["health"]["reason"],
        "id": agent["id"],
    })
}

#[tokio::test]
async fn a_frozen_agent_is_disconnected_and_comes_back_as_the_same() {
    let mut site = LocalSite::new();
    // Longer than a loaded machine keeps a healthy agent from answering.
    site.options.limits.silence = std::time::Duration::from_secs(1);
    let local = site.start().await;
    let id = json!(local.create_ready("agent").await.id);
    let before = agent(&local).await;
    signal(site.runner(), Signal::STOP);
    local.until(&id, |workspace| !workspace.health.healthy).await;
    let mut expected = before.clone();
    expected["status"] = json!("disconnected");
    expected["reason"] = json!("agent has lost connection");
    assert_eq!(agent(&local).await, expected);
    signal(site.runner(), Signal::CONT);
    local.until(&id, |workspace| workspace.health.healthy).await;
    assert_eq!(agent(&local).await, before);
    local.coder.stop().await;
}

#[tokio::test]
async fn a_stopping_server_answers_and_begins_nothing_new() {
    let site = LocalSite::new();
    let local = site.start().await;
    // Deaf to pleas, so that the stop takes a while.
    let created = local.create(TEMPLATE, "deaf", "hang").await.body;
    local.until(&created["id"], is_ready).await;
    site.has_deaf_engine().await;
    let (api, id) = (local.api(), created["id"].as_str().unwrap().to_owned());
    let stopping = tokio::spawn(local.coder.stop());
    // What no server would take is refused for its own sake only as long as the server is not stopping.
    let builds = format!("/api/v2/workspaces/{id}/builds");
    let mut refused = (0, Value::Null);
    eventually("the server is stopping", async || {
        let reply = api.post(&builds, &json!({ "transition": "nonsense" })).await;
        refused = (reply.status, reply.body);
        refused.0 != 400
    })
    .await;
    assert_eq!(refused, (503, json!({ "message": "The server is stopping." })));
    assert_eq!(api.get(&format!("/api/v2/workspaces/{id}")).await.status, 200);
    stopping.await.unwrap();
    assert_eq!(site.processes(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_changed_project_file_is_a_new_version_and_the_one_before_can_still_be_built() {
    let site = LocalSite::new();
    let local = site.start().await;
    let path = format!("/api/v2/organizations/coder/templates/{TEMPLATE}");
    let before = local.api().get(&path).await.body["active_version_id"].clone();
    site.files.projects.lock().unwrap()[0].default_role = "reviewer".to_owned();
    site.files.projects.lock().unwrap().push(project("another", None));
    let now = local.api().get(&path).await.body["active_version_id"].clone();
    assert_ne!(now, before);
    assert_eq!(local.create("another", "one", "").await.status, 201);
    let body = json!({ "name": "two", "template_version_id": before });
    assert_eq!(local.api().post(CREATE, &body).await.status, 201);
    let presets =
        local.api().get(&format!("/api/v2/templateversions/{}/presets", now.as_str().unwrap())).await;
    let rows = presets.body;
    let chosen = rows.as_array().unwrap().iter().find(|preset| preset["Default"] == true).unwrap();
    assert_eq!(chosen["Name"], "reviewer");
    local.coder.stop().await;
}
