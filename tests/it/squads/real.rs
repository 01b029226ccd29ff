//! The real Claude Code and Codex as members: they work, commit, and go on with their own conversations.

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

#[tokio::test]
async fn claude_code_goes_on_with_its_session() {
    let Some(cli) = real_cli("claude") else { return };
    let model = ModelEndpoint::start(script()).await;
    let mut program = Program::without_coder().variable("ENGINE", "claude");
    program = program.variable("PATH", cli.path.to_str().unwrap());
    for (name, value) in variables_of_claude(&model) {
        program = program.variable(name, value);
    }
    let said = assert_goes_on(program, &model).await;
    assert_eq!(said, ["Hello is committed.\n", "It is still there.\n"]);
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
