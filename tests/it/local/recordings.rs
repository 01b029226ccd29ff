//! The embedded Coder answers with the status codes, keys and types that a real one was recorded with.

use std::time::Duration;

use fleet_mcp::durations::Backoff;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Api, CREATE, LocalSite, RunningLocal, TEMPLATE, fixture, is_over, kill, project, read};
use crate::stub::shape::{assert_recorded, assert_same, assert_same_shape};

/// A port without a listener: git fails at once.
const REFUSED: &str = "git://127.0.0.1:1/nothing";

pub(super) fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

/// None of our parameters is a number, so none has a range.
fn without_ranges(parameters: &Value) -> Value {
    let mut parameters = parameters.clone();
    for parameter in parameters.as_array_mut().unwrap() {
        for rule in ["validation_min", "validation_max"] {
            parameter.as_object_mut().unwrap().remove(rule);
        }
    }
    parameters
}

async fn template(api: &Api) -> Value {
    api.get(&format!("/api/v2/organizations/coder/templates/{TEMPLATE}")).await.body
}

#[tokio::test]
async fn the_deployment_and_its_templates_look_like_the_recordings() {
    let site = LocalSite::new();
    let local = site.start().await;
    let api = local.api();
    assert_recorded("001", &read(api.bare(Method::GET, "/api/v2/buildinfo")).await.unwrap());
    assert_recorded("010", &api.get("/api/v2/organizations").await);
    let bearer = api.bare(Method::GET, "/api/v2/organizations").bearer_auth(&local.token);
    assert_recorded("010", &read(bearer).await.unwrap());
    assert_recorded("037", &api.get("/api/v2/templates").await);
    assert_recorded("038", &api.get("/api/v2/templates?q=exact_name:fleet").await);
    let found = template(&api).await;
    let version = text(&found["active_version_id"]);
    assert_recorded("040", &api.get("/api/v2/organizations/coder/templates/fleet").await);
    let version = format!("/api/v2/templateversions/{version}");
    assert_recorded("045", &api.get(&format!("{version}/presets")).await);
    let parameters = api.get(&format!("{version}/rich-parameters")).await.body;
    assert_same_shape("044", &without_ranges(fixture("044").body()), &parameters);
    local.coder.stop().await;
}

#[tokio::test]
async fn a_workspace_and_its_builds_look_like_the_recordings() {
    let mut site = LocalSite::new();
    // A killed agent is looked at before it is started again.
    let hour = Duration::from_secs(3_600);
    site.options.limits.respawn = Backoff::new(hour, hour);
    let local = site.start().await;
    let api = local.api();
    let template = template(&api).await;
    let presets = format!("/api/v2/templateversions/{}/presets", text(&template["active_version_id"]));
    let mut body = fixture("048").raw["request"]["body"].clone();
    body["template_id"] = template["id"].clone();
    body["template_version_preset_id"] = api.get(&presets).await.body[0]["ID"].clone();
    let created = api.post(CREATE, &body).await;
    assert_recorded("048", &created);
    let id = text(&created.body["id"]);
    let ready = local.until(&created.body["id"], crate::harness::is_ready).await;
    assert_recorded("054", &api.get(&format!("/api/v2/workspaces/{id}")).await);
    assert_recorded("099", &api.get("/api/v2/users/me/workspace/agent-one").await);
    assert_recorded("100", &api.get("/api/v2/users/me/workspace/AGENT-ONE").await);
    assert_recorded("103", &api.get(&format!("/api/v2/workspaces/{id}/builds")).await);
    assert_recorded(
        "191",
        &api.get(&format!("/api/v2/workspaces/{id}/builds?since=2126-01-01T00:00:00Z")).await,
    );
    let build = format!("/api/v2/workspacebuilds/{}", ready.latest_build.id);
    assert_recorded("055", &api.get(&format!("{build}/logs")).await);
    assert_recorded("056", &api.get(&format!("{build}/parameters")).await);
    lists_look_like_the_recordings(&api, id).await;
    kill_and_look(&site, &local, &created.body["id"]).await;
    local.coder.stop().await;
}

async fn lists_look_like_the_recordings(api: &Api, id: &str) {
    let list = async |query: &str| api.get(&format!("/api/v2/workspaces?{query}")).await;
    for (prefix, query) in [
        ("068", "q="),
        ("069", "q=owner:me"),
        ("071", "q=template:fleet"),
        ("072", "q=name:agent"),
        ("073", "q=agent-one"),
        ("074", "q=fleet/agent-one"),
        ("075", "q=status:running"),
        ("076", "q=status:stopped"),
        ("079", "q=has-agent:connected"),
        ("080", "q=healthy:true"),
        ("081", "q=param:fleet_mcp_role=coder"),
        ("083", "q=param:fleet_mcp_role=nobody"),
        ("084", "q=param:%22AI%20Prompt%22"),
        ("087", "q=owner:me%20status:running"),
        ("091", "q=template:nope"),
        ("093", "q=include_agent_metadata:fleet_mcp_role,fleet_mcp_agent_spec"),
        ("094", "q=include_agent_metadata:FLEET_MCP_ROLE"),
        ("095", "limit=1&offset=0"),
        ("096", "limit=10&offset=1000"),
    ] {
        let ours = list(query).await;
        assert_recorded(prefix, &ours);
        assert_eq!(ours.body["count"], fixture(prefix).body()["count"], "{prefix}");
    }
    assert_recorded("085", &list(&format!("q=id:{id}")).await);
    assert_eq!(list(&format!("q=id:{id},{id}")).await.body["count"], 1);
    for (prefix, query) in [
        ("088", "q=name:agent-one%20name:other"),
        ("089", "q=foo:bar"),
        ("090", "q=status:sleeping"),
        ("097", "limit=-1"),
        ("098", "limit=abc"),
    ] {
        assert_same(prefix, &list(query).await);
    }
}

/// A killed agent is disconnected at once, and everything else about it stays.
async fn kill_and_look(site: &LocalSite, local: &RunningLocal, id: &Value) {
    site.processes().into_iter().for_each(kill);
    let is_lost = |workspace: &fleet_mcp::coder::wire::Workspace| !workspace.health.healthy;
    local.until(id, is_lost).await;
    let found = local.api().get("/api/v2/workspaces?q=has-agent:disconnected").await;
    assert_recorded("286", &found);
    let agent = &found.body["workspaces"][0]["latest_build"]["resources"][0]["agents"][0];
    assert_eq!(
        (&agent["lifecycle_state"], &agent["apps"][0]["health"], &agent["health"]["reason"]),
        (&json!("ready"), &json!("healthy"), &json!("agent has lost connection"))
    );
}

#[tokio::test]
async fn transitions_and_deleted_workspaces_answer_as_recorded() {
    let site = LocalSite::new();
    let local = site.start().await;
    let api = local.api();
    let workspace = json!(local.create_ready("agent-one").await.id);
    let over = async || local.until(&workspace, is_over).await;
    let build = async |body: Value| local.build(&workspace, &body).await;
    assert_recorded("174", &build(json!({ "transition": "stop" })).await);
    over().await;
    assert_recorded("178", &build(json!({ "transition": "stop" })).await);
    over().await;
    let fixed = json!([{ "name": "fleet_mcp_role", "value": "other" }]);
    let changed = build(json!({ "transition": "start", "rich_parameter_values": fixed })).await;
    assert_recorded("182", &changed);
    assert_same("184", &build(json!({ "transition": "restart" })).await);
    assert_same("185", &build(json!({ "transition": "stop", "orphan": true })).await);
    let restart = |word: &str| json!({ "transition": word, "on_success": { "transition": "start" } });
    assert_same("405", &build(restart("start")).await);
    let unknown = json!([{ "name": "nonsense", "value": "x" }]);
    assert_recorded("183", &build(json!({ "transition": "start", "rich_parameter_values": unknown })).await);
    over().await;
    assert_recorded("186", &build(restart("stop")).await);
    local.until(&workspace, |workspace| workspace.latest_build.build_number == 6 && is_over(workspace)).await;
    assert_recorded("250", &build(json!({ "transition": "delete" })).await);
    over().await;
    let one = format!("/api/v2/workspaces/{}", text(&workspace));
    let gone = api.get(&one).await;
    let message = text(&fixture("252").body()["message"])
        .replace("3922ae45-a827-4cf2-8749-64ada905dc99", text(&workspace));
    assert_eq!((gone.status, gone.body), (410, json!({ "message": message })));
    assert_recorded("253", &api.get(&format!("{one}?include_deleted=true")).await);
    assert_same("254", &api.get("/api/v2/users/me/workspace/agent-one").await);
    assert_recorded("255", &api.get("/api/v2/users/me/workspace/agent-one?include_deleted=true").await);
    assert_same("256", &build(json!({ "transition": "start" })).await);
    assert_recorded("258", &build(json!({ "transition": "delete" })).await);
    over().await;
    assert_recorded("260", &local.create(TEMPLATE, "agent-one", "").await);
    local.coder.stop().await;
}

#[tokio::test]
async fn failed_and_canceled_builds_look_like_the_recordings() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("git://{}/nothing", silent.local_addr().unwrap());
    let site = LocalSite::new()
        .project(project("fleet-fail", Some(REFUSED)))
        .project(project("fleet-slow", Some(&silent_url)));
    let local = site.start().await;
    let api = local.api();
    let failing = local.create("fleet-fail", "will-fail", "").await;
    assert_recorded("192", &failing);
    local.until(&failing.body["id"], is_over).await;
    assert_recorded("194", &api.get("/api/v2/users/me/workspace/will-fail").await);
    assert_recorded("196", &api.get("/api/v2/workspaces?q=status:failed").await);
    let build = format!("/api/v2/workspacebuilds/{}", text(&failing.body["latest_build"]["id"]));
    assert_recorded("195", &api.get(&format!("{build}/logs")).await);
    assert_same("197", &api.patch(&format!("{build}/cancel"), &Value::Null).await);

    let slow = local.create("fleet-slow", "will-cancel", "").await;
    assert_recorded("198", &slow);
    let (_connection, _) = silent.accept().await.unwrap();
    let build = format!("/api/v2/workspacebuilds/{}", text(&slow.body["latest_build"]["id"]));
    assert_same("199", &local.build(&slow.body["id"], &json!({ "transition": "delete" })).await);
    assert_same("200", &api.patch(&format!("{build}/cancel?expect_status=pending"), &Value::Null).await);
    assert_same("201", &api.patch(&format!("{build}/cancel"), &Value::Null).await);
    local.until(&slow.body["id"], is_over).await;
    assert_recorded("205", &api.get("/api/v2/users/me/workspace/will-cancel").await);
    assert_eq!(site.workspace_names(), Vec::<String>::new());
    local.coder.stop().await;
}
