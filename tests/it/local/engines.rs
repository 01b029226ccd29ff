//! What a project file says of its agents counts for its own agents, also where several projects share a template.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

/// Names its engine in answer to every message.
const CUSTOM: &str = "echo\nmade by custom\n";

fn program() -> Program {
    let program = Program::without_coder();
    let template = program.directory.path().join("run.template");
    std::fs::write(&template, CUSTOM).unwrap();
    program.variable("RUN_TEMPLATE_PATH", template.to_str().unwrap())
}

fn project_file(program: &Program, name: &str, settings: &str) {
    let projects = program.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    std::fs::write(projects.join(format!("{name}.toml")), format!("template = \"shared\"\n{settings}"))
        .unwrap();
}

/// How the spec of a new agent of this project ended.
async fn outcome(up: &Up, project: &str) -> Value {
    let spec = "say made by demo";
    up.post("/api/v1/agents", &json!({ "project": project, "spec": spec, "name": project })).await;
    eventually("its spec has ended", async || !up.show(project).await["last_task"].is_null()).await;
    up.show(project).await["last_task"]["outcome"].clone()
}

#[tokio::test]
async fn projects_on_one_template_each_run_the_engine_they_name() {
    let program = program();
    project_file(&program, "alpha", "engine = \"custom\"\n");
    project_file(&program, "beta", "engine = \"demo\"\n");
    project_file(&program, "gamma", "");
    let up = Up::start(&program).await;
    let ended = [outcome(&up, "alpha").await, outcome(&up, "beta").await, outcome(&up, "gamma").await];
    assert_eq!(ended, ["made by custom", "made by demo", "made by demo"], "the server's own engine is demo");
    eventually("its figures are read", async || !up.show("alpha").await["usage"].is_null()).await;
    let unknown =
        json!({ "cost_usd": null, "tokens": 0, "input_tokens": 0, "output_tokens": 0, "unknown_runs": 1 });
    assert_eq!(up.show("alpha").await["usage"], unknown, "a custom engine reports no usage");
}

#[tokio::test]
async fn a_project_takes_its_own_repository_and_not_that_of_the_first_on_its_template() {
    let program = program();
    let (first, second) = (program.repository_named("first"), program.repository_named("second"));
    project_file(&program, "alpha", &format!("repo = {:?}\n", first.to_str().unwrap()));
    project_file(&program, "beta", &format!("repo = {:?}\n", second.to_str().unwrap()));
    let up = Up::start(&program).await;
    up.agent_with(json!({ "project": "beta", "spec": "say ready", "name": "one" })).await;
    let origin = up.exec("one", "git remote get-url origin").await;
    assert_eq!(String::from_utf8_lossy(&origin.stdout).trim(), second.to_str().unwrap());
}

async fn create(up: &Up) -> Value {
    let body = json!({ "project": "alpha", "spec": "say ready", "name": "one" });
    up.call_as(&up.operator_token(), Method::POST, "/api/v1/agents", &body).await.body
}

#[tokio::test]
async fn an_engine_that_does_not_exist_is_refused_until_the_project_file_names_one_that_does() {
    let program = program();
    project_file(&program, "alpha", "engine = \"clade\"\n");
    let up = Up::start(&program).await;
    let refused = create(&up).await;
    assert_eq!(refused["code"], "ENGINE_UNAVAILABLE", "{refused}");
    assert_eq!(refused["message"], "project 'alpha' names the engine 'clade', which does not exist");
    let remedy = "Set engine in the project file of 'alpha' to one of: auto, claude, codex, cursor-agent, custom, demo.";
    assert_eq!(refused["next_action"], remedy);
    project_file(&program, "alpha", "engine = \"demo\"\n");
    let created = create(&up).await;
    assert_eq!(created["agent"]["name"], "one", "{created}");
}

#[tokio::test]
async fn an_engine_that_is_not_on_the_machine_is_refused_before_an_agent_is_made() {
    let program = program();
    project_file(&program, "alpha", "engine = \"cursor-agent\"\n");
    let up = Up::start(&program).await;
    let refused = create(&up).await;
    let told =
        "project 'alpha' names the engine 'cursor-agent', which is not installed on the server's machine";
    assert_eq!((&refused["code"], &refused["message"]), (&json!("ENGINE_UNAVAILABLE"), &json!(told)));
    assert_eq!(refused["next_action"], "Install cursor-agent on the server's machine, then call again.");
}
