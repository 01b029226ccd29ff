//! The real Claude Code and Codex as members: they work, commit, and go on with their own conversations.

use fleet_mcp::domain::budget::RAISE_BUDGET;
use serde_json::{Value, json};

use super::{Squads, member};
use crate::connect::real_clients::{variables_of_claude, write_provider};
use crate::harness::{ModelEndpoint, Program, Turn, real_cli};

const COMMIT: &str = "echo hello > hello.txt && git add hello.txt \
    && git -c user.name=Ann -c user.email=ann@example.test commit -qm 'Say hello'";

fn script() -> Vec<Turn> {
    vec![Turn::shell(COMMIT), Turn::say("Hello is committed."), Turn::say("It is still there.")]
}

/// A first member works and commits; a second one goes on in the same session, which the model is told whole.
async fn assert_goes_on(program: Program, model: &ModelEndpoint) -> [Value; 2] {
    let squads = Squads::on(program.variable("STATE_MODE", "stateful")).await;
    let first = squads.run_one(member("coder", "Say hello in a file.")).await;
    assert_eq!(first["status"], "completed", "{first}");
    let git = std::process::Command::new("git")
        .args(["log", "-1", "--format=%s"])
        .current_dir(squads.repository())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&git.stdout), "Say hello\n", "{first}");
    let again = json!({ "roleId": "coder", "task": "Is it there?", "chatId": first["chatId"] });
    let second = squads.run_one(again).await;
    assert_eq!((&second["status"], &second["chatId"]), (&json!("completed"), &first["chatId"]), "{second}");
    let told = model.requests().last().unwrap().body.to_string();
    assert!(told.contains("Hello is committed.") && told.contains("Is it there?"), "{told}");
    [first["rawStdout"].clone(), second["rawStdout"].clone()]
}

/// None without the real CLI.
fn with_claude(model: &ModelEndpoint) -> Option<Program> {
    let cli = real_cli("claude")?;
    let program = Program::without_coder().variable("ENGINE", "claude");
    let program = program.variable("PATH", cli.path.to_str().unwrap());
    let variables = variables_of_claude(model).into_iter();
    Some(variables.fold(program, |program, (name, value)| program.variable(name, value)))
}

fn with_budget(program: Program, max_tokens: u64) -> Program {
    program.with_settings(&format!("[agents]\nmax_tokens = {max_tokens}\n"))
}

#[tokio::test]
async fn claude_code_goes_on_with_its_session() {
    let model = ModelEndpoint::start(script()).await;
    let Some(program) = with_claude(&model) else { return };
    let said = assert_goes_on(program, &model).await;
    assert_eq!(said, ["Hello is committed.\n", "It is still there.\n"]);
}

/// The scripted model reports 15 tokens for each of its three answers, and the CLI the sum of its session.
#[tokio::test]
async fn a_session_of_claude_code_is_counted_once_if_its_members_have_a_budget() {
    let model = ModelEndpoint::start(script()).await;
    let Some(program) = with_claude(&model) else { return };
    let squads = Squads::on(with_budget(program.variable("STATE_MODE", "stateful"), 1_000)).await;
    let first = squads.run_one(member("coder", "Say hello in a file.")).await;
    let spend = async || squads.up.get("/api/v1/status").await["spend_today"]["tokens"].clone();
    assert_eq!(spend().await, 30, "{first}");
    let again = json!({ "roleId": "coder", "task": "Is it there?", "chatId": first["chatId"] });
    let second = squads.run_one(again).await;
    assert_eq!((&second["status"], spend().await), (&json!("completed"), json!(45)), "{second}");
}

#[tokio::test]
async fn claude_code_is_stopped_at_the_message_that_crosses_its_token_limit() {
    let script = vec![Turn::shell("true"), Turn::shell("sleep 600"), Turn::say("This is never said.")];
    let model = ModelEndpoint::start(script).await;
    let Some(program) = with_claude(&model) else { return };
    let squads = Squads::on(with_budget(program, 20)).await;
    let stopped = squads.run_one(member("coder", "Wait for me.")).await;
    let reason = format!("was stopped: the budget is used up; {RAISE_BUDGET}");
    assert_eq!((&stopped["status"], &stopped["reason"]), (&json!("error"), &json!(reason)), "{stopped}");
    assert_eq!(model.n_played(), 2);
}

#[tokio::test]
async fn codex_goes_on_with_its_thread() {
    let Some(cli) = real_cli("codex") else { return };
    let model = ModelEndpoint::start(script()).await;
    let program = Program::without_coder().variable("ENGINE", "codex").variable("OPENAI_MODEL_KEY", "none");
    let program = program.variable("PATH", cli.path.to_str().unwrap());
    write_provider(&program.directory.path().join(".codex"), &model.url);
    let said = assert_goes_on(program, &model).await;
    assert!(said[1].as_str().unwrap().contains("It is still there."), "{said:?}");
}
