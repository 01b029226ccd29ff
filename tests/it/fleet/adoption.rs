//! Which workspaces are agents: those of our user whose template is a project, made by us or not.

use fleet_mcp::domain::agent::AgentStatus;

use crate::harness::{Pace, Scene, TemplateSpec, eventually, operator};

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
async fn what_is_deleted_or_stopped_outside_is_seen() {
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
    scene.coder.fault(rule);
    scene.running.create("two").await.unwrap();
    eventually("the fleet still sees Coder", async || scene.running.fleet.health().now().is_reachable())
        .await;
    scene.running.fleet.fleet_status(&operator()).await.unwrap();
    assert!(scene.running.status("one").is_some());
}
