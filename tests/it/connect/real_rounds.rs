//! One CLI on both sides: as the manager that `connect` set up, and as the engine of the agent it leads.

use serde_json::{Value, json};

use super::real_clients::Client;
use super::real_engines::machine;
use super::{Left, interrupt, up};
use crate::harness::{ModelEndpoint, Turn, json_in, real_cli};

/// By these words the model knows who asks.
const MANAGER: &str = "Have the crew greeted, and see to its questions.";
const SPEC: &str = "Greet the crew in a file.";
const QUESTION: &str = "Which greeting shall I use?";
const ANSWER: &str = "Use the greeting Ahoy.";
const COMMIT: &str = "echo Ahoy > hello.txt && git add hello.txt \
    && git -c user.name=Ann -c user.email=ann@example.test commit -qm 'Say ahoy'";

/// The row of the agent in an answer of `wait_for_agents`.
fn row(result: &str) -> Value {
    json_in(result)["changed"][0].clone()
}

fn wait() -> Value {
    json!({ "agent_names": ["greeter"], "until": "done", "timeout_seconds": 40 })
}

/// Makes an agent, sees that it asks, answers, sees what came of it, and removes it.
fn manager() -> Vec<Turn> {
    let create = json!({ "project": "setup", "name": "greeter", "spec": SPEC, "wait_seconds": 40 });
    vec![
        Turn::fleet("create_agent", move |_| create.clone()),
        Turn::fleet_until("wait_for_agents", |_| wait(), |told| row(told)["attention"] == "needs_input"),
        Turn::fleet("fleet_status", |_| json!({})),
        Turn::fleet("start_agent_task", |_| json!({ "agent_name": "greeter", "task_description": ANSWER })),
        Turn::fleet_until(
            "wait_for_agents",
            |_| wait(),
            |told| row(told)["last_task"]["message"] == ANSWER && row(told)["status"] == "idle",
        ),
        Turn::fleet("delete_agent", |_| json!({ "agent_name": "greeter", "wait_seconds": 45 })),
        Turn::say("The crew is greeted."),
    ]
}

/// Asks by a report, and does the rest with the answer.
fn agent() -> Vec<Turn> {
    let report = json!({ "state": "idle", "summary": "A greeting is missing.", "question": QUESTION });
    vec![
        Turn::fleet("report_status", move |_| report.clone()),
        Turn::say("I wait for the answer."),
        Turn::shell(COMMIT),
        Turn::say("The greeting is committed."),
    ]
}

async fn assert_round(name: &str) {
    let Some(cli) = real_cli(name) else { return };
    let model = ModelEndpoint::start_parts(vec![(MANAGER, manager()), (SPEC, agent())]).await;
    let program = machine(&cli, &model);
    let _left = Left(&program);
    let server = up(&program, &["--engine", name]).await;
    assert!(program.run(&["connect", name]).await.status.success());
    let client = Client { cli: &cli, name, program: &program, model: &model };
    let output = client.run(MANAGER).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("The crew is greeted."), "{output:?}");
    assert_eq!(model.n_played(), manager().len() + agent().len(), "{said}");
    assert_told(&model);
    let list = program.json(&["--json", "agents", "list"]).await;
    assert_eq!(list["total_count"], 0, "{list}");
    interrupt(server).await;
}

/// What the manager was told on the way, and the agent.
fn assert_told(model: &ModelEndpoint) {
    let results: Vec<Value> = model.results_in(MANAGER).iter().map(|result| json_in(result)).collect();
    let status = results.iter().find(|result| result["counts"].is_object()).unwrap();
    let asked = &status["attention"][0];
    assert_eq!(
        (&asked["agent"], &asked["attention"], &asked["reason"]),
        (&json!("greeter"), &json!("needs_input"), &json!(QUESTION))
    );
    let ended = &results[results.len() - 2]["changed"][0];
    assert_eq!(
        (&ended["attention"], &ended["last_task"]["outcome"]),
        (&json!("none"), &json!("The greeting is committed."))
    );
    assert_eq!(results.last().unwrap()["deleted_agent"]["name"], "greeter");
    let requests = model.requests();
    let told = requests.iter().map(|request| request.body.to_string());
    assert!(told.filter(|body| !body.contains(MANAGER)).any(|body| body.contains(ANSWER)));
}

#[tokio::test]
async fn claude_code_leads_an_agent_that_is_claude_code_through_a_question() {
    assert_round("claude").await;
}

#[tokio::test]
async fn codex_leads_an_agent_that_is_codex_through_a_question() {
    assert_round("codex").await;
}
