//! Versions of a template: a workspace stays with its own until another one is asked for.

use serde_json::{Value, json};

use super::recordings::text;
use crate::harness::{CREATE, LocalSite, RunningLocal, TEMPLATE, eventually, is_over};
use crate::stub::shape::assert_recorded;

async fn template(local: &RunningLocal) -> Value {
    local.api().get(&format!("/api/v2/organizations/coder/templates/{TEMPLATE}")).await.body
}

/// Changes the project file, and waits until the template has followed.
async fn change(site: &LocalSite, local: &RunningLocal) -> Value {
    let before = template(local).await["active_version_id"].clone();
    site.files.projects.lock().unwrap()[0].default_role = "reviewer".to_owned();
    let mut now = before.clone();
    eventually("the template follows", async || {
        now = template(local).await["active_version_id"].clone();
        now != before
    })
    .await;
    now
}

#[tokio::test]
async fn a_workspace_stays_with_its_version_until_another_is_asked_for() {
    let site = LocalSite::new();
    let local = site.start().await;
    let (api, first) = (local.api(), template(&local).await);
    let workspace = json!(local.create_ready("agent-one").await.id);
    let show = async || api.get(&format!("/api/v2/workspaces/{}", text(&workspace))).await;
    let outdated = async |value: &str| api.get(&format!("/api/v2/workspaces?q=outdated:{value}")).await;
    assert_recorded("278", &show().await);
    assert_recorded("086", &outdated("true").await);
    assert_eq!(outdated("true").await.body["count"], 0);
    let old = first["active_version_id"].clone();
    let new = change(&site, &local).await;
    let shown = show().await;
    assert_recorded("295", &shown);
    assert_eq!(shown.body["outdated"], true);
    assert_eq!(
        [outdated("true").await.body["count"].clone(), outdated("false").await.body["count"].clone()],
        [1, 0]
    );

    let mut built = Vec::new();
    for body in [
        json!({ "transition": "stop" }),
        json!({ "transition": "start" }),
        json!({ "transition": "start", "template_version_id": new }),
        json!({ "transition": "stop", "template_version_id": old }),
    ] {
        let build = local.build(&workspace, &body).await;
        assert_eq!(build.status, 201, "{}", build.body);
        local.until(&workspace, is_over).await;
        let shown = show().await.body;
        built.push((shown["latest_build"]["template_version_id"].clone(), shown["outdated"].clone()));
    }
    let (is, is_not) = (json!(true), json!(false));
    assert_eq!(built, [(old.clone(), is.clone()), (old.clone(), is.clone()), (new, is_not), (old, is)]);
    let unknown = json!({ "transition": "start", "template_version_id": workspace });
    assert_eq!(local.build(&workspace, &unknown).await.status, 400);
    local.coder.stop().await;
}

#[tokio::test]
async fn presets_of_earlier_versions_still_count() {
    let site = LocalSite::new();
    let local = site.start().await;
    let (api, first) = (local.api(), template(&local).await);
    let old = first["active_version_id"].clone();
    let preset =
        api.get(&format!("/api/v2/templateversions/{}/presets", text(&old))).await.body[1]["ID"].clone();
    let new = change(&site, &local).await;
    let body =
        json!({ "name": "stalepreset2", "template_id": first["id"], "template_version_preset_id": preset });
    let made = api.post(CREATE, &body).await;
    assert_recorded("296", &made);
    let build = &made.body["latest_build"];
    assert_eq!((&build["template_version_id"], &build["template_version_preset_id"]), (&new, &preset));
    let values = api.get(&format!("/api/v2/workspacebuilds/{}/parameters", text(&build["id"]))).await.body;
    let role = values.as_array().unwrap().iter().find(|value| value["name"] == "fleet_mcp_role").unwrap();
    assert_eq!(role["value"], "reviewer");
    local.until(&made.body["id"], is_over).await;
    local.coder.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_know_a_version_any_more_builds_with_the_one_in_force_and_says_so() {
    let site = LocalSite::new();
    let local = site.start().await;
    let workspace = json!(local.create_ready("agent-one").await.id);
    local.coder.stop().await;
    site.files.projects.lock().unwrap()[0].default_role = "reviewer".to_owned();
    let local = site.start().await;
    let resumed = local.until(&workspace, crate::harness::is_ready).await;
    assert_eq!(json!(resumed.latest_build.template_version_id), template(&local).await["active_version_id"]);
    assert!(!resumed.outdated);
    local.coder.stop().await;
}
