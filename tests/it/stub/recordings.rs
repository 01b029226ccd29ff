//! The stub answers with the status codes, keys and types that a real Coder was recorded with.

use super::shape::{assert_recorded, assert_same, assert_same_shape};
use crate::harness::{Api, Behaviour, CREATE, CoderStub, Pace, TemplateSpec, fixture, read};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ABSENT: &str = "8b75af5c-0000-4000-8000-000000000000";

async fn template_id(api: &Api, name: &str) -> Value {
    api.get(&format!("/api/v2/templates?q=exact_name:{name}")).await.body[0]["id"].clone()
}

async fn preset_id(api: &Api, name: &str) -> Value {
    let template = api.get("/api/v2/organizations/coder/templates/fleet").await.body;
    let version = text(&template["active_version_id"]);
    let presets = api.get(&format!("/api/v2/templateversions/{version}/presets")).await.body;
    let mut presets = presets.as_array().into_iter().flatten();
    presets
        .find(|preset| preset["Name"] == name)
        .map(|preset| preset["ID"].clone())
        .expect("the preset is there")
}

/// Name and value of each parameter, in no particular order.
fn by_name(parameters: &Value) -> BTreeMap<String, String> {
    let rows = parameters.as_array().into_iter().flatten();
    rows.map(|row| (text(&row["name"]).to_owned(), text(&row["value"]).to_owned())).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

#[tokio::test]
async fn server_and_organization_look_like_the_recordings() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    assert_recorded("001", &api.get("/api/v2/buildinfo").await);
    assert_recorded("010", &api.get("/api/v2/organizations").await);
    let bearer = api.bare(Method::GET, "/api/v2/organizations").bearer_auth(stub.token());
    assert_recorded("010", &read(bearer).await.unwrap());
}

#[tokio::test]
async fn templates_look_like_the_recordings() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    assert_recorded("037", &api.get("/api/v2/templates").await);
    let exact = api.get("/api/v2/templates?q=exact_name:fleet").await;
    assert_recorded("038", &exact);
    let version = text(&exact.body[0]["active_version_id"]);
    assert_recorded("040", &api.get("/api/v2/organizations/coder/templates/fleet").await);
    assert_recorded("044", &api.get(&format!("/api/v2/templateversions/{version}/rich-parameters")).await);
    assert_recorded("045", &api.get(&format!("/api/v2/templateversions/{version}/presets")).await);
    assert_same("214", &api.get("/api/v2/organizations/coder/templates/nope").await);
}

#[tokio::test]
async fn a_template_without_presets_answers_null() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.template_add(TemplateSpec::new("bare"));
    let api = stub.api();
    let version =
        api.get("/api/v2/organizations/coder/templates/bare").await.body["active_version_id"].clone();
    let presets = api.get(&format!("/api/v2/templateversions/{}/presets", text(&version))).await;
    assert_eq!((presets.status, presets.body), (200, Value::Null));
}

#[tokio::test]
async fn workspaces_and_builds_look_like_the_recordings() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    let mut body = fixture("048").raw["request"]["body"].clone();
    body["template_id"] = template_id(&api, "fleet").await;
    body["template_version_preset_id"] = preset_id(&api, "coder").await;
    let created = api.post(CREATE, &body).await;
    assert_recorded("048", &created);
    stub.set_resource_metadata("agent-one", "fleet_role", "coder");
    stub.set_sensitive_metadata("agent-one", "secret_item", "shown");
    let id = text(&created.body["id"]);
    let ready = api.get(&format!("/api/v2/workspaces/{id}")).await;
    assert_recorded("054", &ready);
    assert_recorded("099", &api.get("/api/v2/users/me/workspace/agent-one").await);
    assert_recorded("100", &api.get("/api/v2/users/me/workspace/AGENT-ONE").await);
    assert_recorded("103", &api.get(&format!("/api/v2/workspaces/{id}/builds")).await);
    let build = format!("/api/v2/workspacebuilds/{}", text(&created.body["latest_build"]["id"]));
    assert_recorded("055", &api.get(&format!("{build}/logs")).await);
    let parameters = api.get(&format!("{build}/parameters")).await.body;
    assert_eq!(by_name(&parameters), by_name(fixture("056").body()));
    let agent = &ready.body["latest_build"]["resources"][0]["agents"][0];
    assert_same_shape("059", fixture("059").body(), agent);
}

#[tokio::test]
async fn transitions_look_like_the_recordings() {
    let stub = CoderStub::start(Pace::Held).await;
    let api = stub.api();
    stub.seed("agent", 1);
    let id = text(&stub.workspace("agent-1")["id"]).to_owned();
    let builds = format!("/api/v2/workspaces/{id}/builds");
    let stop = api.post(&builds, &json!({ "transition": "stop" })).await;
    assert_recorded("174", &stop);
    assert_same("175", &api.post(&builds, &json!({ "transition": "start" })).await);
    assert_same("199", &api.post(&builds, &json!({ "transition": "delete" })).await);
    stub.settle("agent-1");
    assert_recorded("178", &api.post(&builds, &json!({ "transition": "stop" })).await);
    stub.settle_all();
    let bad =
        json!({ "transition": "start", "rich_parameter_values": [{ "name": "agent_spec", "value": "x" }] });
    assert_same("182", &api.post(&builds, &bad).await);
    assert_same("184", &api.post(&builds, &json!({ "transition": "restart" })).await);
    assert_same("185", &api.post(&builds, &json!({ "transition": "stop", "orphan": true })).await);
    let restart =
        |transition: &str| json!({ "transition": transition, "on_success": { "transition": "start" } });
    assert_same("405", &api.post(&builds, &restart("start")).await);
    assert_recorded("186", &api.post(&builds, &restart("stop")).await);
    assert_same("407", &api.post(&builds, &restart("stop")).await);
}

#[tokio::test]
async fn deleted_workspaces_answer_as_recorded() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    stub.seed("agent", 1);
    let id = text(&stub.workspace("agent-1")["id"]).to_owned();
    let (one, builds) = (format!("/api/v2/workspaces/{id}"), format!("/api/v2/workspaces/{id}/builds"));
    assert_recorded("250", &api.post(&builds, &json!({ "transition": "delete" })).await);
    let gone = api.get(&one).await;
    assert_eq!((gone.status, text(&gone.body["message"]).contains(&id)), (410, true));
    assert_recorded("253", &api.get(&format!("{one}?include_deleted=true")).await);
    assert_same("254", &api.get("/api/v2/users/me/workspace/agent-1").await);
    assert_recorded("255", &api.get("/api/v2/users/me/workspace/agent-1?include_deleted=true").await);
    assert_same("256", &api.post(&builds, &json!({ "transition": "start" })).await);
    assert_recorded("258", &api.post(&builds, &json!({ "transition": "delete" })).await);
    assert_recorded("260", &api.workspace_create("fleet", "agent-1").await);
}

#[tokio::test]
async fn failed_and_canceled_builds_look_like_the_recordings() {
    let stub = CoderStub::start(Pace::PerRead).await;
    stub.template_add(TemplateSpec::new("fleet-fail").behaviour(Behaviour::BuildFails));
    stub.template_add(TemplateSpec::new("fleet-slow").behaviour(Behaviour::Slow(9)));
    let api = stub.api();
    let body = json!({ "name": "will-fail", "template_id": template_id(&api, "fleet-fail").await });
    let failing = api.post(CREATE, &body).await;
    assert_recorded("192", &failing);
    stub.settle("will-fail");
    assert_recorded("194", &api.get("/api/v2/users/me/workspace/will-fail").await);
    let build = format!("/api/v2/workspacebuilds/{}", text(&failing.body["latest_build"]["id"]));
    assert_recorded("195", &api.get(&format!("{build}/logs")).await);
    assert_same("197", &api.patch(&format!("{build}/cancel"), &Value::Null).await);

    let body = json!({ "name": "will-cancel", "template_id": template_id(&api, "fleet-slow").await });
    let slow = api.post(CREATE, &body).await;
    let build = format!("/api/v2/workspacebuilds/{}", text(&slow.body["latest_build"]["id"]));
    let slow = api.get("/api/v2/users/me/workspace/will-cancel").await.body;
    assert_same_shape("049", fixture("049").body(), &slow["latest_build"]);
    assert_same("200", &api.patch(&format!("{build}/cancel?expect_status=pending"), &Value::Null).await);
    assert_same("201", &api.patch(&format!("{build}/cancel"), &Value::Null).await);
    assert_same("202", &api.patch(&format!("{build}/cancel"), &Value::Null).await);
    stub.set_pace(Pace::Held);
    assert_same_shape("203", fixture("203").body(), &stub.workspace("will-cancel")["latest_build"]);
    stub.settle("will-cancel");
    assert_recorded("205", &api.get("/api/v2/users/me/workspace/will-cancel").await);
}

#[tokio::test]
async fn refused_credentials_and_ids_answer_as_recorded() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    assert_same("209", &read(api.bare(Method::GET, "/api/v2/workspaces")).await.unwrap());
    assert_same("207", &Api::new(stub.url(), "bad-token").get("/api/v2/organizations").await);
    assert_same("210", &api.get("/api/v2/nonexistent").await);
    assert_same("211", &api.get(&format!("/api/v2/workspaces/{ABSENT}")).await);
    assert_same("212", &api.get("/api/v2/workspaces/not-a-uuid").await);
    assert_same("213", &api.get(&format!("/api/v2/workspacebuilds/{ABSENT}/parameters")).await);
    assert_same("215", &api.get(&format!("/api/v2/workspaceagents/{ABSENT}/watch-metadata")).await);
    assert_same("101", &api.get("/api/v2/users/me/workspace/nope").await);
    assert_same("102", &api.get("/api/v2/users/nobodyhere/workspace/agent-one").await);
}

#[tokio::test]
async fn refused_creates_answer_as_recorded() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.template_add(TemplateSpec::new("fleet-fast"));
    let api = stub.api();
    let ids = [template_id(&api, "fleet").await, template_id(&api, "fleet-fast").await];
    let (fleet, fast) = (text(&ids[0]), text(&ids[1]));
    stub.seed("dup", 1);
    stub.rename_outside("dup-1", "dup-name");
    for prefix in [
        "217", "218", "219", "220", "221", "222", "223", "224", "225", "226", "227", "228", "229", "232",
        "233", "234", "235", "236", "237", "248",
    ] {
        let recorded = fixture(prefix);
        let mut body = recorded.raw["request"]["body"].clone();
        let recorded_id = text(&body["template_id"]).to_owned();
        // The recordings used two templates: the one with parameters, and a plain one.
        let is_fleet = recorded_id.starts_with("82105866");
        body["template_id"] = json!(if is_fleet { fleet } else { fast });
        let path = text(&recorded.raw["request"]["path"]).replace("/users/", "/organizations/coder/members/");
        assert_same(prefix, &api.post(&path, &body).await);
    }
    assert_eq!(stub.workspaces().len(), 1);
}

#[tokio::test]
async fn creates_without_a_usable_template_answer_as_recorded() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    let fleet = template_id(&api, "fleet").await;
    assert_recorded("240", &api.post(CREATE, &json!({ "name": "tm", "template_id": ABSENT })).await);
    assert_same("241", &api.post(CREATE, &json!({ "name": "tm", "template_id": "fleet" })).await);
    assert_same("242", &api.post(CREATE, &json!({ "name": "tm" })).await);
    let both = json!({ "name": "tm", "template_id": fleet, "template_version_id": fleet });
    assert_recorded("243", &api.post(CREATE, &both).await);
    let preset = json!({ "name": "tmp", "template_id": fleet, "template_version_preset_id": ABSENT });
    assert_same("244", &api.post(CREATE, &preset).await);
    assert_recorded("245", &read(api.request(Method::POST, CREATE).body("{not json")).await.unwrap());
    assert_same("246", &read(api.request(Method::POST, CREATE)).await.unwrap());
}

#[tokio::test]
async fn reports_look_like_the_recording() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    stub.post_app_status("agent-1", "working", "Reading the code");
    let recorded = &fixture("124").raw["body"]["latest_app_status"];
    assert_same_shape("124", recorded, &stub.workspace("agent-1")["latest_app_status"]);
}

#[tokio::test]
async fn metadata_streams_look_like_the_recording() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    stub.set_metadata("agent-1", "fleet_mcp_role", "coder");
    let agent = stub.workspace("agent-1")["latest_build"]["resources"][0]["agents"][0]["id"].clone();
    let path = format!("/api/v2/workspaceagents/{}/watch-metadata", text(&agent));
    let stream = stub.api().get(&path).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let data = text(&stream.body).strip_prefix("event: data\ndata: ").expect("one data event");
    let data: Value = serde_json::from_str(data).unwrap();
    assert_same_shape("063", &fixture("063").raw["events"][0]["data"], &data);
}

#[tokio::test]
async fn lists_look_like_the_recordings() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.seed("agent", 1);
    stub.set_resource_metadata("agent-1", "fleet_role", "coder");
    stub.set_metadata("agent-1", "fleet_mcp_role", "coder");
    let api = stub.api();
    assert_recorded("069", &api.get("/api/v2/workspaces?q=owner:me").await);
    assert_recorded("095", &api.get("/api/v2/workspaces?limit=1&offset=0").await);
    let keys = "include_agent_metadata:fleet_mcp_role,fleet_mcp_project";
    assert_recorded("093", &api.get(&format!("/api/v2/workspaces?q={keys}")).await);
    stub.disconnect("agent-1");
    assert_recorded("286", &api.get("/api/v2/workspaces?q=has-agent:disconnected").await);
    stub.set_agent("agent-1", "connected", "start_error");
    assert_recorded("299", &api.get("/api/v2/users/me/workspace/agent-1").await);
    assert_eq!(
        api.get("/api/v2/workspaces?q=outdated:true").await.status,
        501,
        "no wrong answer instead of none"
    );
}
