//! Pushes of a template: what is created right after one is made of it, with the parameters that it declares.

use std::time::Duration;

use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::agents::{CreateAgent, RequestToken};
use fleet_mcp::app::catalog::CatalogDirs;
use fleet_mcp::app::error::Code;
use fleet_mcp::domain::access::AllowedProjects;
use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::domain::id::AgentId;
use fleet_mcp::domain::limits::Limits;
use fleet_mcp::domain::role::RoleKind;
use fleet_mcp::domain::spec::Spec;
use serde_json::Value;

use crate::harness::{
    CoderStub, Fault, FaultProxy, LocalSite, Matches, Pace, ParamSpec, ProxyFault, Rule, RunningFleet, Scene,
    TemplateSpec, When, caller, create_command, eventually, fleet_options, operator, project, stub, template,
};

const LOOKUP: &str = "GET /api/v2/organizations/";

/// The template's next version: it has one more parameter, and a preset for reviewers that fills it.
fn push(coder: &CoderStub) {
    let spec = template("setup").param(ParamSpec::text("region").default("eu"));
    coder.template_add(spec.preset("planner", &[("region", "us")]));
}

/// The version that the newest build of a workspace was made of, and the one that is active.
async fn versions(coder: &CoderStub, name: &str) -> (Value, Value) {
    let found = coder.api().get("/api/v2/templates?q=exact_name:setup").await.body;
    let workspace = coder.workspace(name);
    (workspace["latest_build"]["template_version_id"].clone(), found[0]["active_version_id"].clone())
}

async fn parameter(coder: &CoderStub, name: &str, parameter: &str) -> Option<String> {
    let build = coder.workspace(name)["latest_build"]["id"].as_str().unwrap().to_owned();
    let values = coder.api().get(&format!("/api/v2/workspacebuilds/{build}/parameters")).await.body;
    let value = values.as_array().unwrap().iter().find(|value| value["name"] == parameter)?["value"].clone();
    value.as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_create_right_after_a_push_is_made_of_the_new_version() {
    let scene = Scene::new(Pace::Instant).await;
    push(&scene.coder);
    let request = CreateAgent { role: Some("planner".into()), ..create_command("one") };
    scene.running.fleet.agent_create(&operator(), request).await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    let (used, active) = versions(&scene.coder, "one").await;
    assert_eq!(used, active);
    let region = parameter(&scene.coder, "one", "region").await;
    assert_eq!(region.as_deref(), Some("us"), "the preset of the new version counts");
}

#[tokio::test]
async fn parameter_that_a_push_requires_is_checked_at_once() {
    let scene = Scene::new(Pace::Instant).await;
    scene.coder.template_add(template("setup").param(ParamSpec::text("region")));
    let refused = scene.running.create("one").await.unwrap_err();
    let told = "template 'setup' requires the parameter 'region': set it under [parameters] in the project file of \
                'setup'";
    assert_eq!((refused.code(), refused.to_string().as_str()), (Code::InvalidInput, told));
    assert_eq!(scene.coder.workspaces(), []);
}

#[tokio::test]
async fn a_push_while_coder_is_away_counts_for_what_was_accepted_meanwhile() {
    let coder = stub(Pace::Instant).await;
    let mut proxy = FaultProxy::start(coder.url()).await;
    let running = RunningFleet::start(&proxy.url(), &coder.token()).await.seen().await;
    proxy.down().await;
    eventually("the outage is noticed", async || !running.fleet.health().now().is_reachable()).await;
    let created = running.create("one").await.unwrap();
    assert_eq!(created.agent.agent.sighting.status, AgentStatus::Pending);
    push(&coder);
    proxy.up().await;
    running.becomes("one", AgentStatus::Idle).await;
    let (used, active) = versions(&coder, "one").await;
    assert_eq!(used, active);
}

#[tokio::test]
async fn a_coder_that_does_not_tell_the_version_holds_the_create_up_and_loses_nothing() {
    let scene = Scene::new(Pace::Instant).await;
    let lookup = Matches::call("GET", "/api/v2/organizations/{org}/templates/{name}");
    scene.coder.fault(Rule { matches: lookup, when: When::First(6), kind: Fault::ErrorBefore });
    let created = scene.running.create("one").await.unwrap();
    assert!(created.operation.is_some());
    scene.running.becomes("one", AgentStatus::Idle).await;
    assert_eq!(scene.coder.workspaces().len(), 1);
}

/// How often the active version of a template was looked up.
fn n_lookups(coder: &CoderStub) -> usize {
    coder.calls().iter().filter(|(call, _)| call.starts_with(LOOKUP)).map(|(_, n)| n).sum()
}

#[tokio::test]
async fn a_create_that_is_not_permitted_asks_coder_for_nothing() {
    let scene = Scene::new(Pace::Instant).await;
    let before = n_lookups(&scene.coder);
    let mut manager = caller(RoleKind::Manager, "manager");
    manager.principal.projects = AllowedProjects::Only(vec!["other".to_owned()]);
    let refused = scene.running.fleet.agent_create(&manager, create_command("one")).await.unwrap_err();
    assert_eq!((refused.code(), n_lookups(&scene.coder)), (Code::Forbidden, before));
}

#[tokio::test]
async fn a_repeated_request_is_answered_from_the_record() {
    let scene = Scene::new(Pace::Instant).await;
    let request = Some(RequestToken { key: "k".into(), fingerprint: [1; 32] });
    let request = CreateAgent { request, ..create_command("one") };
    let first = scene.running.fleet.agent_create(&operator(), request.clone()).await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    let before = n_lookups(&scene.coder);
    let again = scene.running.fleet.agent_create(&operator(), request).await.unwrap();
    assert_eq!((again.operation, n_lookups(&scene.coder)), (first.operation, before));
}

#[tokio::test]
async fn a_create_right_after_its_template_was_removed_names_the_projects_there_are() {
    let scene = Scene::new(Pace::Instant).await;
    scene.coder.template_remove("setup");
    let refused = scene.running.create("one").await.unwrap_err();
    let told = "project 'setup' not found; there are: dataone, fleet";
    assert_eq!((refused.code(), refused.to_string().as_str()), (Code::NotFound, told));
    assert_eq!(scene.running.status("one"), None);
}

#[tokio::test]
async fn a_template_that_is_removed_while_coder_is_away_ends_what_was_accepted_with_that_reason() {
    let coder = stub(Pace::Instant).await;
    let mut proxy = FaultProxy::start(coder.url()).await;
    let running = RunningFleet::start(&proxy.url(), &coder.token()).await.seen().await;
    proxy.down().await;
    eventually("the outage is noticed", async || !running.fleet.health().now().is_reachable()).await;
    running.create("one").await.unwrap();
    coder.template_remove("setup");
    proxy.up().await;
    running.becomes("one", AgentStatus::Failed).await;
    let reason = running.show("one").await.unwrap().agent.sighting.reason.clone();
    assert!(reason.contains("project 'setup' not found; there are: dataone, fleet"), "{reason}");
    assert_eq!(coder.workspaces(), []);
}

#[tokio::test]
async fn on_the_embedded_coder_a_changed_project_file_counts_for_the_next_create() {
    let site = LocalSite::new().project(project("setup", None));
    let local = site.start().await;
    let projects = tempfile::tempdir().unwrap();
    let at = (local.url.as_str(), local.token.as_str());
    let running =
        RunningFleet::start_with_projects(at, projects.path().into(), fleet_options()).await.seen().await;
    let template = "/api/v2/organizations/coder/templates/setup";
    let before = local.api().get(template).await.body["active_version_id"].clone();
    assert!(before.is_string(), "{before}");
    site.files.projects.lock().unwrap().last_mut().unwrap().default_role = "reviewer".to_owned();
    let file = "name = \"setup\"\ntemplate = \"setup\"\ndefault_role = \"reviewer\"\n";
    std::fs::write(projects.path().join("setup.toml"), file).unwrap();
    let request = CreateAgent { spec: Spec::parse("say ready").unwrap(), ..create_command("one") };
    running.fleet.agent_create(&operator(), request).await.unwrap();
    running.becomes("one", AgentStatus::Idle).await;
    let shown = local.api().get("/api/v2/users/me/workspace/one").await.body;
    assert_ne!(shown["latest_build"]["template_version_id"], before, "it is made of what the file says now");
    assert_eq!(shown["outdated"], false);
    let agent = running.show("one").await.unwrap().agent.clone();
    assert_eq!(agent.role, "reviewer", "the default role is the one that the file names now");
}

/// A manager among the agents may make no managers: what counts is the role that the new agent gets.
#[tokio::test]
async fn a_default_role_that_the_caller_may_not_give_is_refused_as_soon_as_the_file_names_it() {
    let coder = stub(Pace::Instant).await;
    let (projects, token) = (tempfile::tempdir().unwrap(), coder.token());
    let at = (coder.url(), token.as_str());
    let running =
        RunningFleet::start_with_projects(at, projects.path().into(), fleet_options()).await.seen().await;
    let write = |role: &str| {
        let file = format!("name = \"setup\"\ntemplate = \"setup\"\ndefault_role = \"{role}\"\n");
        std::fs::write(projects.path().join("setup.toml"), file).unwrap();
    };
    let mut manager = caller(RoleKind::Manager, "manager");
    manager.principal.agent = Some(AgentId::fresh());
    write("manager");
    let refused = running.fleet.agent_create(&manager, create_command("one")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Forbidden);
    write("coder");
    running.fleet.agent_create(&manager, create_command("one")).await.unwrap();
    assert_eq!(running.show("one").await.unwrap().agent.role, "coder");
}

#[tokio::test]
async fn a_role_that_becomes_forbidden_while_coder_is_asked_is_refused() {
    let (coder, roles) = (stub(Pace::Instant).await, tempfile::tempdir().unwrap());
    let write = |kind: &str| {
        std::fs::write(roles.path().join("lead.md"), format!("---\nkind: {kind}\n---\nLead.\n")).unwrap();
    };
    write("coding");
    let proxy = FaultProxy::start(coder.url()).await;
    let limits = Limits { version_lookup: Duration::from_secs(60), ..Limits::NORMAL };
    let files = CatalogDirs { roles: vec![roles.path().into()], ..CatalogDirs::default() };
    let at = (proxy.url(), coder.token());
    let options = FleetOptions { limits, ..fleet_options() };
    let running = RunningFleet::start_with_files((&at.0, &at.1), files, options).await.seen().await;
    let lookup = Matches::call("GET", "/api/v2/organizations/{org}/templates/{name}");
    let delay = ProxyFault::Delay(Duration::from_secs(1));
    let lookup = proxy.fault(Rule { matches: lookup, when: When::Always, kind: delay });
    let mut manager = caller(RoleKind::Manager, "manager");
    manager.principal.agent = Some(AgentId::fresh());
    let request = CreateAgent { role: Some("lead".to_owned()), ..create_command("one") };
    let edit = async {
        eventually("the template is looked up", async || proxy.fault_hits(lookup) == 1).await;
        write("manager");
    };
    let (created, ()) = tokio::join!(running.fleet.agent_create(&manager, request), edit);
    assert_eq!(created.unwrap_err().code(), Code::Forbidden);
    assert_eq!(coder.workspaces(), []);
}

/// A create that cannot be known to have arrived: its answer is lost and Coder shows no workspace by name.
async fn unclear_create(kind: Fault) -> Scene {
    let scene = Scene::new(Pace::Instant).await;
    let create = Matches::call("POST", "/api/v2/organizations/{org}/members/{user}/workspaces");
    let lost = scene.coder.fault(Rule { matches: create, when: When::First(1), kind });
    // The first look is made before anything is sent.
    let look = Matches::call("GET", "/api/v2/users/{user}/workspace/{name}");
    scene.coder.fault(Rule { matches: look, when: When::After(1), kind: Fault::ErrorBefore });
    scene.running.create("one").await.unwrap();
    eventually("the create was sent", async || scene.coder.fault_hits(lost) > 0).await;
    scene
}

#[tokio::test]
async fn a_push_that_renames_the_prompt_does_not_make_our_workspace_a_strangers() {
    let scene = unclear_create(Fault::ErrorAfter).await;
    scene.coder.template_add(TemplateSpec::new("setup").param(ParamSpec::text("ai_prompt").default("")));
    scene.coder.clear_faults();
    scene.running.becomes("one", AgentStatus::Idle).await;
    assert!(scene.running.show("one").await.unwrap().agent.created_by.is_some(), "it is the one we made");
    assert_eq!(scene.coder.workspaces().len(), 1);
}

#[tokio::test]
async fn a_push_that_drops_the_prompt_does_not_make_a_strangers_workspace_ours() {
    let scene = unclear_create(Fault::ErrorBefore).await;
    assert_eq!(scene.coder.api().workspace_create("setup", "one").await.status, 201);
    scene.coder.template_add(TemplateSpec::new("setup"));
    scene.coder.clear_faults();
    scene.running.becomes("one", AgentStatus::Failed).await;
    let agent = scene.running.show("one").await.unwrap().agent.clone();
    assert_eq!(agent.workspace_id, None, "{}", agent.sighting.reason);
}
