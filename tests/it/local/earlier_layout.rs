//! A data directory whose agents kept their socket, log and owner in their own directory goes on working.

use fleet_mcp::coder::Deleted;
use serde_json::{Value, json};

use crate::harness::{LocalSite, eventually, is_ready};

/// Puts what the server trusts where an earlier layout had it.
fn age(site: &LocalSite) {
    std::fs::remove_dir_all(site.data_dir().join("coder/agents")).unwrap();
    for entry in std::fs::read_dir(site.data_dir().join("coder/workspaces")).unwrap() {
        let path = entry.unwrap().path();
        let mut state: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let workspace = &mut state["content"];
        let fleet = site.workspace(workspace["name"].as_str().unwrap()).join("fleet");
        std::fs::write(fleet.join("workspace"), workspace["id"].as_str().unwrap()).unwrap();
        std::fs::write(fleet.join("agent.log"), "").unwrap();
        for build in workspace["builds"].as_array_mut().unwrap() {
            if build["agent"].is_object() {
                build["agent"]["socket"] = json!(fleet.join("agent.sock"));
            }
        }
        std::fs::write(&path, state.to_string()).unwrap();
    }
}

#[tokio::test]
async fn an_agent_that_was_stopped_starts_and_goes_without_a_rest() {
    let site = LocalSite::new();
    let local = site.start().await;
    let id = json!(local.create_ready("agent").await.id);
    local.coder.stop().await;
    age(&site);
    let local = site.start().await;
    local.until(&id, is_ready).await;
    // A foreign owner is no owner: the record knows better.
    std::fs::write(site.workspace("agent").join("fleet/workspace"), "somebody").unwrap();
    local.build(&id, &json!({ "transition": "delete" })).await;
    local.until(&id, |workspace| workspace.latest_build.status == "deleted").await;
    assert_eq!(site.workspace_names(), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(site.data_dir().join("coder/agents")).unwrap().count(), 0);
    local.coder.stop().await;
}

#[tokio::test]
async fn an_agent_that_ran_through_a_crash_is_restarted_with_a_socket_out_of_its_reach() {
    let site = LocalSite::new();
    let doomed = site.start_doomed().await;
    let ready = doomed.local.create_ready("agent").await;
    let (id, before) = (json!(ready.id), ready.latest_build.build_number);
    doomed.crash().await;
    age(&site);
    let runners = site.processes();
    let local = site.start().await;
    eventually("it has started again", async || {
        let now = local.client().workspace(ready.id, Deleted::Exclude).await.unwrap();
        is_ready(&now) && now.latest_build.build_number == before + 2
    })
    .await;
    assert!(runners.iter().all(|runner| !site.processes().contains(runner)));
    local.build(&id, &json!({ "transition": "delete" })).await;
    local.until(&id, |workspace| workspace.latest_build.status == "deleted").await;
    assert_eq!((site.workspace_names(), site.processes()), (Vec::new(), Vec::new()));
    local.coder.stop().await;
}
