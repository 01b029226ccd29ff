//! Which workspaces are agents: those of our user whose template is a project, made by us or not.

use fleet_mcp::domain::agent::AgentStatus;

use crate::harness::{
    CREATE, Fault, Matches, Pace, Rule, RunningFleet, Scene, TemplateSpec, When, eventually, operator, stub,
};

fn names(scene: &Scene) -> Vec<String> {
    scene.running.fleet.board().now().agents.keys().map(|key| key.to_string()).collect()
}

#[tokio::test]
async fn a_workspace_made_outside_becomes_an_agent_and_others_do_not() {
    let scene = Scene::new(Pace::Instant).await;
    scene.coder.template_add(TemplateSpec::new("plain").display_name("Plain"));
    scene.coder.api().workspace_create("plain", "no-prompt").await;
    scene.coder.seed_foreign("somebody", "theirs");
    scene.coder.api().workspace_create("setup", "Outside").await;
    scene.running.becomes("outside", AgentStatus::Idle).await;
    assert_eq!(names(&scene), ["outside"]);
    let state = scene.running.show("outside").await.unwrap();
    assert_eq!((state.agent.project.as_str(), state.agent.role.as_str()), ("setup", "coder"));
    assert_eq!(state.agent.created_by, None);
}

#[tokio::test]
async fn deletes_and_stops_outside_of_the_fleet_are_seen() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.create("two").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    scene.running.becomes("two", AgentStatus::Idle).await;
    scene.coder.delete_outside("one");
    scene.running.is_gone("one").await;
    let id = scene.coder.workspace("two")["id"].as_str().unwrap().to_owned();
    let stop = serde_json::json!({"transition": "stop"});
    scene.coder.api().post(&format!("/api/v2/workspaces/{id}/builds"), &stop).await;
    scene.running.becomes("two", AgentStatus::Stopped).await;
}

#[tokio::test]
async fn a_workspace_renamed_outside_is_the_same_agent_under_its_new_name() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    let id = scene.running.show("one").await.unwrap().agent.id;
    scene.coder.rename_outside("one", "uno");
    eventually("the new name is known", async || scene.running.status("uno").is_some()).await;
    assert_eq!(scene.running.show("uno").await.unwrap().agent.id, id);
    assert_eq!(scene.running.status("one"), None);
}

#[tokio::test]
async fn one_row_that_cannot_be_read_spoils_no_other_and_its_agent_stays() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    let rule = crate::harness::Rule {
        matches: crate::harness::Matches::call("GET", "/api/v2/workspaces"),
        when: crate::harness::When::Always,
        kind: crate::harness::Fault::BadRow,
    };
    let fault = scene.coder.fault(rule);
    scene.running.create("two").await.unwrap();
    // The second list is asked for once the first one is taken in.
    eventually("a list with the row was read", async || scene.coder.fault_hits(fault) >= 2).await;
    assert!(scene.running.fleet.health().now().is_reachable());
    scene.running.fleet.fleet_status(&operator()).await.unwrap();
    assert!(scene.running.status("one").is_some());
}

#[tokio::test]
async fn a_workspace_found_running_is_shown_running_from_its_first_moment_on() {
    let coder = stub(Pace::Instant).await;
    coder.api().workspace_create("setup", "outside").await;
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    let agent = running.store.agent_newest_by_name("outside").await.unwrap().unwrap();
    let (status, previous, reason) =
        (agent.sighting.status, agent.sighting.previous_status, agent.sighting.reason.as_str());
    assert_eq!((status, previous, reason), (AgentStatus::Idle, None, "ready for a task"));
}

#[tokio::test]
async fn a_workspace_made_outside_from_a_preset_has_the_role_of_that_preset() {
    let scene = Scene::new(Pace::Instant).await;
    let api = scene.coder.api();
    let template = api.get("/api/v2/organizations/coder/templates/setup").await.body;
    let version = template["active_version_id"].as_str().unwrap();
    let presets = api.get(&format!("/api/v2/templateversions/{version}/presets")).await.body;
    let reviewer = presets.as_array().unwrap().iter().find(|preset| preset["Name"] == "reviewer").unwrap();
    let body = serde_json::json!({
        "name": "outside", "template_version_id": version, "template_version_preset_id": reviewer["ID"],
    });
    assert_eq!(api.post(CREATE, &body).await.status, 201);
    scene.running.becomes("outside", AgentStatus::Idle).await;
    assert_eq!(scene.running.show("outside").await.unwrap().agent.role, "reviewer");
}

/// A role carries rights: an agent that names another one for itself gets none of them.
#[tokio::test]
async fn role_in_an_agents_own_metadata_does_not_count() {
    let coder = stub(Pace::Instant).await;
    coder.api().workspace_create("setup", "outside").await;
    coder.set_metadata("outside", "fleet_mcp_role", "manager");
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    assert_eq!(running.show("outside").await.unwrap().agent.role, "coder");
}

#[tokio::test]
async fn a_workspace_without_a_build_is_listed_as_failed_and_can_be_deleted() {
    let coder = stub(Pace::Instant).await;
    coder.api().workspace_create("setup", "outside").await;
    coder.fault(Rule {
        matches: Matches::path("/api/v2/workspaces/**"),
        when: When::Always,
        kind: Fault::NoBuild,
    });
    coder.fault(Rule {
        matches: Matches::path("/api/v2/workspaces"),
        when: When::Always,
        kind: Fault::NoBuild,
    });
    let running = RunningFleet::start(coder.url(), &coder.token()).await.seen().await;
    let found = running.show("outside").await.unwrap().agent.sighting.clone();
    assert_eq!((found.status, found.reason.as_str()), (AgentStatus::Failed, "Coder shows no build"));
    running.delete("outside").await.unwrap();
    coder.clear_faults();
    running.is_gone("outside").await;
    assert_eq!(coder.workspaces()[0].builds, 2);
}
