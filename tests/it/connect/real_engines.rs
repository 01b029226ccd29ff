//! The real Claude Code and Codex as engines of an agent: they edit, commit, call the fleet as themselves, report.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::process::Command;

use super::real_clients::{variables, write_provider};
use super::{Left, home, interrupt, up};
use crate::harness::{ModelEndpoint, Program, RealCli, Turn, eventually, json_in, real_cli};

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

/// The engine's user is the fleet's user, who may have connected the same CLI as a client.
async fn assert_works_beside(engine: &str, connect: Option<&[&str]>) {
    let Some(cli) = real_cli(engine) else { return };
    let model = ModelEndpoint::start(script()).await;
    let program = machine(&cli, &model);
    let _left = Left(&program);
    if let Some(connect) = connect {
        connected(&program, connect).await;
    }
    assert_works(&program, &model, engine).await;
    assert_eq!(model.tools_of("mcp__fleet"), Vec::<String>::new(), "a manager's tools are no agent's");
}

/// A machine whose user has both CLIs' settings.
pub(super) fn machine(cli: &RealCli, model: &ModelEndpoint) -> Program {
    let mut program = Program::without_coder().variable("PATH", cli.path.to_str().unwrap());
    for (name, value) in variables(model) {
        program = program.variable(name, value);
    }
    write_provider(&home(&program, ".codex"), &model.url);
    program
}

/// Runs `connect` while the server is up, as it needs for a token of its own.
async fn connected(program: &Program, connect: &[&str]) {
    let server = up(program, &[]).await;
    let output = program.run(connect).await;
    assert!(output.status.success(), "{output:?}");
    interrupt(server).await;
}

#[tokio::test]
async fn claude_code_works_as_an_agent_and_calls_the_fleet_as_itself() {
    assert_works_beside("claude", None).await;
}

#[tokio::test]
async fn codex_works_as_an_agent_and_calls_the_fleet_as_itself() {
    assert_works_beside("codex", None).await;
}

#[tokio::test]
async fn claude_code_works_as_an_agent_of_a_user_who_connected_it() {
    assert_works_beside("claude", Some(&["connect", "claude"])).await;
}

#[tokio::test]
async fn codex_works_as_an_agent_of_a_user_who_connected_it() {
    assert_works_beside("codex", Some(&["connect", "codex"])).await;
}

#[tokio::test]
async fn codex_works_as_an_agent_of_a_user_who_connected_it_over_http() {
    assert_works_beside("codex", Some(&["connect", "codex", "--http"])).await;
}

/// An agent that asks in plain words, without a report, and is answered by a task.
async fn assert_asks(engine: &str) {
    let Some(cli) = real_cli(engine) else { return };
    let question = "Both would do.\n\n**Which language shall I take?**";
    let model = ModelEndpoint::start(vec![Turn::say(question), Turn::say("It is done in Rust.")]).await;
    let program = machine(&cli, &model);
    let _left = Left(&program);
    let server = up(&program, &["--engine", engine]).await;
    let create = ["agents", "create", "--project", "setup", "--name", "one", "--spec", "Write it."];
    assert!(program.run(&create).await.status.success());
    eventually("its question is shown", async || agent(&program).await["attention"] == "needs_input").await;
    let shown = agent(&program).await;
    let reason = json!("ended with a question: Which language shall I take?");
    assert_eq!((&shown["reason"], &shown["last_task"]["outcome"]), (&reason, &json!(question)));
    assert!(program.run(&["tasks", "start", "one", "Rust."]).await.status.success());
    eventually("the answer is worked on", async || {
        let shown = agent(&program).await;
        shown["last_task"]["outcome"] == "It is done in Rust." && shown["attention"] == "none"
    })
    .await;
    interrupt(server).await;
}

#[tokio::test]
async fn claude_code_that_asks_in_plain_words_needs_input() {
    assert_asks("claude").await;
}

#[tokio::test]
async fn codex_that_asks_in_plain_words_needs_input() {
    assert_asks("codex").await;
}
