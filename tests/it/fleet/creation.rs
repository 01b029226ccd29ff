//! Creating: what is checked before Coder hears of it, what is sent, what comes back.

use std::time::Duration;

use fleet_mcp::app::agents::{CreateAgent, RequestToken};
use fleet_mcp::app::error::Code;
use fleet_mcp::domain::agent::AgentStatus;

use crate::harness::{Behaviour, Pace, ParamSpec, Scene, create_command, eventually, operator, template};

fn n_posts(scene: &Scene) -> usize {
    scene.coder.calls().iter().filter(|(call, _)| call.starts_with("POST")).map(|(_, n)| n).sum()
}

#[tokio::test]
async fn twenty_five_at_once_over_two_templates_are_all_ready() {
    let scene = Scene::new(Pace::PerRead).await;
    let creates = (0..25).map(|n| {
        let project = if n % 2 == 0 { "Setup" } else { "dataone" };
        let request = CreateAgent { project: project.into(), ..create_command(&format!("agent-{n}")) };
        scene.running.fleet.agent_create(Box::leak(Box::new(operator())), request)
    });
    for created in futures_util::future::join_all(creates).await {
        assert!(created.unwrap().operation.is_some());
    }
    for n in 0..25 {
        scene.running.becomes(&format!("agent-{n}"), AgentStatus::Idle).await;
    }
    assert_eq!(scene.coder.workspaces().len(), 25);
}

#[tokio::test]
async fn the_workspace_gets_the_role_and_the_prompt_and_only_declared_parameters() {
    let scene = Scene::new(Pace::Instant).await;
    let request = CreateAgent { role: Some("Reviewer".into()), ..create_command("one") };
    scene.running.fleet.agent_create(&operator(), request).await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    let build = scene.coder.workspace("one")["latest_build"].clone();
    let path = format!("/api/v2/workspacebuilds/{}/parameters", build["id"].as_str().unwrap());
    let mut parameters: Vec<(String, String)> = scene
        .coder
        .api()
        .get(&path)
        .await
        .body
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["name"].as_str().unwrap().to_owned(), p["value"].as_str().unwrap().to_owned()))
        .collect();
    parameters.sort();
    let expected = [
        ("AI Prompt", "## Objective\nFix the login bug"),
        ("fleet_mcp_agent_name", "one"),
        ("fleet_mcp_role", "reviewer"),
        ("system_prompt", "Review strictly."),
    ];
    assert_eq!(parameters, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

/// The template hands it to the engine, which is told as much as where we provision the agent ourselves.
#[tokio::test]
async fn the_system_prompt_is_the_role_with_how_to_report() {
    let scene = Scene::new(Pace::Instant).await;
    for role in ["coder", "planner", "qa-engineer"] {
        let request = CreateAgent { role: Some(role.into()), ..create_command(role) };
        scene.running.fleet.agent_create(&operator(), request).await.unwrap();
        scene.running.becomes(role, AgentStatus::Idle).await;
        let build = scene.coder.workspace(role)["latest_build"]["id"].as_str().unwrap().to_owned();
        let values = scene.coder.api().get(&format!("/api/v2/workspacebuilds/{build}/parameters")).await.body;
        let mut values = values.as_array().unwrap().iter();
        let prompt = values.find(|value| value["name"] == "system_prompt").unwrap()["value"].clone();
        let file =
            std::fs::read_to_string(format!("{}/roles/{role}.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let persona = file.splitn(3, "---\n").nth(2).unwrap().trim();
        let reporting = include_str!("../../../src/app/provision/reporting.md");
        assert_eq!(prompt, format!("{persona}\n\n{reporting}"), "{role}");
    }
}

#[tokio::test]
async fn bad_input_never_reaches_coder() {
    let scene = Scene::new(Pace::Instant).await;
    scene.coder.template_add(template("strict").param(ParamSpec::text("region")));
    scene.running.create("taken").await.unwrap();
    let before = n_posts(&scene);
    let cases = [
        (
            CreateAgent { project: "nope".into(), ..create_command("a") },
            Code::NotFound,
            "project 'nope' not found; there are: dataone, fleet, setup, strict",
        ),
        (
            CreateAgent { role: Some("boss".into()), ..create_command("a") },
            Code::NotFound,
            "role 'boss' not found; there are: architect, backend-developer, coder, frontend-developer, manager, operator, planner, qa-engineer, reviewer",
        ),
        (create_command("TAKEN"), Code::AlreadyExists, "agent 'TAKEN' already exists"),
        (
            CreateAgent { project: "strict".into(), ..create_command("a") },
            Code::InvalidInput,
            "template 'strict' requires the parameter 'region': set it under [parameters] in the project file of 'strict'",
        ),
    ];
    for (request, code, message) in cases {
        let error = scene.running.fleet.agent_create(&operator(), request).await.unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
    }
    assert_eq!(n_posts(&scene), before);
}

#[tokio::test]
async fn a_name_that_coder_has_for_something_else_is_refused_and_left_alone() {
    let scene = Scene::new(Pace::Instant).await;
    scene.coder.template_add(crate::harness::TemplateSpec::new("other").display_name(""));
    let created = scene.coder.api().workspace_create("other", "mine").await;
    assert_eq!(created.status, 201);
    let error = scene.running.create("mine").await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (Code::AlreadyExists, "agent 'mine' already exists")
    );
    assert_eq!(scene.running.status("mine"), None);
    assert_eq!(scene.coder.workspaces().len(), 1);
}

#[tokio::test]
async fn without_a_name_a_short_unique_one_is_made() {
    let scene = Scene::new(Pace::Instant).await;
    let request = CreateAgent { name: None, ..create_command("unused") };
    let created = scene.running.fleet.agent_create(&operator(), request).await.unwrap();
    assert!(created.agent.agent.name.as_str().len() <= 20);
    scene.running.becomes(created.agent.agent.name.as_str(), AgentStatus::Idle).await;
}

#[tokio::test]
async fn the_same_request_key_is_the_same_agent_and_other_arguments_are_refused() {
    let scene = Scene::new(Pace::Instant).await;
    let token = |fingerprint: u8| Some(RequestToken { key: "k".into(), fingerprint: [fingerprint; 32] });
    let request =
        |fingerprint| CreateAgent { name: None, request: token(fingerprint), ..create_command("unused") };
    let first = scene.running.fleet.agent_create(&operator(), request(1)).await.unwrap();
    let second = scene.running.fleet.agent_create(&operator(), request(1)).await.unwrap();
    assert_eq!((first.operation, first.agent.agent.id), (second.operation, second.agent.agent.id));
    let error = scene.running.fleet.agent_create(&operator(), request(2)).await.unwrap_err();
    assert_eq!(error.code(), Code::KeyReused);
    scene.running.becomes(first.agent.agent.name.as_str(), AgentStatus::Idle).await;
    assert_eq!(scene.coder.workspaces().len(), 1);
}

#[tokio::test]
async fn a_failing_build_leaves_a_failed_agent_that_says_why_and_gives_its_slot_back() {
    let scene = Scene::new(Pace::PerRead).await;
    scene.coder.template_add(template("broken").behaviour(Behaviour::BuildFails));
    let request =
        CreateAgent { project: "broken".into(), wait: Duration::from_secs(30), ..create_command("one") };
    let created = scene.running.fleet.agent_create(&operator(), request).await.unwrap();
    assert_eq!(created.agent.agent.sighting.status, AgentStatus::Failed);
    eventually("the reason has the build log's end", async || {
        let reason = scene.running.show("one").await.unwrap().agent.sighting.reason.clone();
        reason.starts_with("the build failed: ")
            && reason.len() > "the build failed: terraform apply: exit status 1".len()
    })
    .await;
    let overview = scene.running.fleet.fleet_status(&operator()).await.unwrap();
    assert_eq!((overview.slots.used, overview.slots.queued), (0, 0));
    assert_eq!(
        overview.attention[0].next_action,
        "Call show_agent for 'one', then start_agent or delete_agent."
    );
    scene.running.delete("one").await.unwrap();
    scene.running.is_gone("one").await;
}

#[tokio::test]
async fn waiting_at_creation_returns_a_ready_agent() {
    let scene = Scene::new(Pace::PerRead).await;
    let request = CreateAgent { wait: Duration::from_secs(30), ..create_command("one") };
    let created = scene.running.fleet.agent_create(&operator(), request).await.unwrap();
    assert!(created.agent.agent.sighting.status.is_ready());
    assert_eq!(created.message, "agent 'one' is ready");
    assert_eq!(created.warnings, ["the spec has no heading Context, Constraints, Deliverables"]);
}
