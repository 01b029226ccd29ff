//! The real Claude Code and Codex as engines of an agent: they edit, commit, call the fleet as themselves, report.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::process::Command;

use super::real_clients::{variables_of_claude, write_provider};
use super::{Left, home, interrupt, up};
use crate::harness::{ModelEndpoint, Program, Turn, eventually, json_in, real_cli};

const ANSWER: &str = "Hello is committed.";
const EDIT: &str = "echo hello > hello.txt && git add hello.txt \
    && git -c user.name=Ann -c user.email=ann@example.test commit -qm 'Say hello' && git rev-parse HEAD";

/// Edits and commits, tells the fleet about it without naming itself, and ends.
fn script() -> Vec<Turn> {
    vec![
        Turn::shell(EDIT),
        Turn::fleet("set_agent_metadata", |earlier| {
            let commit = earlier[0].lines().rev().find(|line| line.trim().len() == 40).unwrap_or("none");
            json!({ "key": "fleet_mcp_commit", "value": commit.trim() })
        }),
        Turn::say(ANSWER),
    ]
}

async fn git(program: &Program, arguments: &[&str]) -> String {
    let repository: PathBuf = program.data_dir().join("workspaces/one/repo");
    let output = Command::new("git").arg("-C").arg(repository).args(arguments).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn agent(program: &Program) -> Value {
    program.json(&["--json", "agents", "show", "one"]).await["agent"].clone()
}

/// One agent does its first task; then everything is where it should be.
async fn assert_works(program: &Program, model: &ModelEndpoint, engine: &str) {
    let server = up(program, &["--engine", engine]).await;
    let create =
        ["agents", "create", "--project", "setup", "--name", "one", "--spec", "Say hello in a file."];
    assert!(program.run(&create).await.status.success());
    eventually("the agent has ended its task", async || {
        let agent = agent(program).await;
        agent["status"] == "idle" && agent["last_task"]["outcome"].is_string()
    })
    .await;
    let results = model.results();
    let shown = agent(program).await;
    assert_eq!(
        (&shown["last_task"]["state"], &shown["last_task"]["outcome"]),
        (&json!("done"), &json!(ANSWER))
    );
    assert_eq!(model.n_played(), 3, "{results:?}");
    assert_eq!(git(program, &["log", "-1", "--format=%s"]).await, "Say hello");
    let commit = git(program, &["rev-parse", "HEAD"]).await;
    assert_eq!(json_in(&results[1])["metadata"]["fleet_mcp_commit"], commit.as_str(), "{results:?}");
    let audit = program.json(&["--json", "audit"]).await;
    let rows = audit["entries"].as_array().unwrap().iter();
    let ours: Vec<_> = rows.filter(|row| row["action"] == "set_agent_metadata").collect();
    assert_eq!(
        (ours.len(), &ours[0]["principal"], &ours[0]["outcome"]),
        (1, &json!("one"), &json!("allowed"))
    );
    interrupt(server).await;
}

#[tokio::test]
async fn claude_code_works_as_an_agent_and_calls_the_fleet_as_itself() {
    let Some(cli) = real_cli("claude") else { return };
    let model = ModelEndpoint::start(script()).await;
    let mut program = Program::without_coder().variable("PATH", cli.path.to_str().unwrap());
    for (name, value) in variables_of_claude(&model) {
        program = program.variable(name, value);
    }
    let _left = Left(&program);
    assert_works(&program, &model, "claude").await;
}

#[tokio::test]
async fn codex_works_as_an_agent_and_calls_the_fleet_as_itself() {
    let Some(cli) = real_cli("codex") else { return };
    let model = ModelEndpoint::start(script()).await;
    let program = Program::without_coder().variable("PATH", cli.path.to_str().unwrap());
    let program = program.variable("OPENAI_MODEL_KEY", "none");
    let _left = Left(&program);
    write_provider(&home(&program, ".codex"), &model.url);
    assert_works(&program, &model, "codex").await;
}
