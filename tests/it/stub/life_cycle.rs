//! Workspaces step through their builds in the order that was recorded on a real Coder.

use crate::harness::{Api, Behaviour, CoderStub, Pace, TemplateSpec, fixture};
use serde_json::{Value, json};

/// What a poller can tell one moment of a workspace from another by.
fn moment(workspace: &Value) -> Value {
    let build = &workspace["latest_build"];
    let agent = &build["resources"][0]["agents"][0];
    let agents = if agent.is_null() { json!([]) } else { json!([agent_moment(agent)]) };
    json!({
        "transition": build["transition"],
        "job.status": build["job"]["status"],
        "latest_build.status": build["status"],
        "agents": agents,
        "workspace.health.healthy": workspace["health"]["healthy"],
    })
}

fn agent_moment(agent: &Value) -> Value {
    json!({
        "status": agent["status"],
        "lifecycle_state": agent["lifecycle_state"],
        "health": agent["health"]["healthy"],
        "reason": agent["health"]["reason"],
        "ready": agent["ready_at"].is_string(),
        "app": agent["apps"][0]["health"],
    })
}

/// The same of a recorded row; the pending rows depend on the recorder's luck and are left out.
fn recorded(prefix: &str) -> Vec<Value> {
    let rows = fixture(prefix).rows().iter().map(recorded_moment).collect();
    distinct(rows)
}

fn recorded_moment(row: &Value) -> Value {
    let agent = |agent: &Value| {
        let mut moment = agent.clone();
        let apps = moment.as_object_mut().and_then(|fields| fields.remove("apps")).unwrap_or_default();
        moment["app"] = apps["ccw"].clone();
        moment
    };
    let agents: Vec<Value> = row["agents"].as_array().into_iter().flatten().map(agent).collect();
    let keys = ["transition", "job.status", "latest_build.status", "workspace.health.healthy"];
    let mut moment: Value = keys.iter().map(|key| (*key, row[key].clone())).collect();
    moment["agents"] = json!(agents);
    moment
}

fn distinct(mut moments: Vec<Value>) -> Vec<Value> {
    moments.retain(|moment| moment["latest_build.status"] != "pending");
    moments.dedup();
    moments
}

async fn create(api: &Api, template: &str) -> Value {
    api.workspace_create(template, "one").await.body
}

async fn build(api: &Api, workspace: &Value, body: Value) {
    let id = workspace["id"].as_str().expect("an id");
    let reply = api.post(&format!("/api/v2/workspaces/{id}/builds"), &body).await;
    assert_eq!(reply.status, 201);
}

/// Steps until nothing changes any more.
fn timeline(stub: &CoderStub) -> Vec<Value> {
    let mut moments = Vec::new();
    while stub.advance("one") {
        moments.push(moment(&stub.workspace("one")));
    }
    distinct(moments)
}

#[tokio::test]
async fn create_steps_as_recorded() {
    let stub = CoderStub::start(Pace::Held).await;
    create(&stub.api(), "fleet").await;
    assert_eq!(timeline(&stub), recorded("050"));
}

#[tokio::test]
async fn stop_start_and_restart_step_as_recorded() {
    let stub = CoderStub::start(Pace::Held).await;
    let api = stub.api();
    let workspace = create(&api, "fleet").await;
    stub.settle("one");
    build(&api, &workspace, json!({ "transition": "stop" })).await;
    assert_eq!(timeline(&stub), recorded("176"));
    build(&api, &workspace, json!({ "transition": "start" })).await;
    let mut start = recorded("180");
    // One recording caught the agent between connecting and starting its script.
    start.retain(|moment| {
        moment["agents"][0]["lifecycle_state"] != "created" || moment["agents"][0]["status"] != "connected"
    });
    assert_eq!(until_ready(timeline(&stub)), until_ready(start));
    build(&api, &workspace, json!({ "transition": "stop", "on_success": { "transition": "start" } })).await;
    assert_eq!(until_ready(timeline(&stub)), until_ready(recorded("187")));
    assert_eq!(stub.workspaces()[0].builds, 5);
}

/// Some recordings end before the app's first health check.
fn until_ready(mut moments: Vec<Value>) -> Vec<Value> {
    moments.retain(|moment| moment["agents"][0]["app"] != "healthy");
    moments
}

#[tokio::test]
async fn delete_steps_as_recorded() {
    let stub = CoderStub::start(Pace::Held).await;
    let api = stub.api();
    let workspace = create(&api, "fleet").await;
    stub.settle("one");
    build(&api, &workspace, json!({ "transition": "delete", "orphan": true })).await;
    assert_eq!(timeline(&stub), recorded("262"));
}

#[tokio::test]
async fn failing_builds_and_scripts_step_as_recorded() {
    let stub = CoderStub::start(Pace::Held).await;
    stub.template_add(TemplateSpec::new("fleet-fail").behaviour(Behaviour::BuildFails));
    stub.template_add(TemplateSpec::new("fleet-bad").behaviour(Behaviour::StartError));
    create(&stub.api(), "fleet-fail").await;
    assert_eq!(timeline(&stub), recorded("193"));
    stub.delete_outside("one");
    create(&stub.api(), "fleet-bad").await;
    let mut ours = timeline(&stub);
    // The recording missed the moment before the agent connected.
    ours.retain(|moment| moment["agents"][0]["status"] != "connecting");
    assert_eq!(ours, recorded("298"));
}

#[tokio::test]
async fn canceling_steps_as_recorded() {
    let stub = CoderStub::start(Pace::Held).await;
    stub.template_add(TemplateSpec::new("fleet-slow").behaviour(Behaviour::Slow(2)));
    let workspace = create(&stub.api(), "fleet-slow").await;
    stub.advance("one");
    let mut ours = vec![moment(&stub.workspace("one"))];
    let id = workspace["latest_build"]["id"].as_str().expect("an id");
    stub.api().patch(&format!("/api/v2/workspacebuilds/{id}/cancel"), &Value::Null).await;
    ours.push(moment(&stub.workspace("one")));
    ours.extend(timeline(&stub));
    assert_eq!(ours, recorded("204"));
}

#[tokio::test]
async fn a_killed_agent_reads_as_recorded() {
    let stub = CoderStub::start(Pace::Instant).await;
    create(&stub.api(), "fleet").await;
    let mut ours = vec![moment(&stub.workspace("one"))];
    stub.disconnect("one");
    ours.push(moment(&stub.workspace("one")));
    assert_eq!(ours, recorded("284"));
}
