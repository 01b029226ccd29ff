//! Conversations of the real CLIs: they go on over restarts and kills, and each run has its own share of the cost.

use serde_json::{Value, json};

use super::{STEP, Scene};
use crate::harness::{Turn, eventually};

const COMMIT: &str = "echo hello > hello.txt && git add hello.txt \
    && git -c user.name=Ann -c user.email=ann@example.test commit -qm 'Say hello'";

fn script() -> Vec<Turn> {
    vec![
        Turn::shell(COMMIT),
        Turn::say("Committed."),
        Turn::shell("true"),
        Turn::shell("sleep 600"),
        Turn::shell("git log -1 --format=%s"),
        Turn::say("I remember."),
        Turn::say("Still."),
    ]
}

/// Input and output tokens of every turn together.
async fn shares(scene: &Scene, state: &Value) -> Vec<u64> {
    assert_eq!(scene.workspace.commits(), ["Say hello"]);
    let turns = state["turns"].as_array().unwrap().iter();
    let tokens = |turn: &Value, kind: &str| turn["usage"][kind].as_u64().unwrap_or_default();
    turns.map(|turn| tokens(turn, "input_tokens") + tokens(turn, "output_tokens")).collect()
}

/// Four messages: one is done, one dies with its runner after a step that its CLI has counted and in one that it
/// has not, and two go on with the same conversation.
async fn assert_goes_on(engine: &'static str) {
    let Some(scene) = Scene::of(engine, script()).await else { return };
    scene.workspace.leave("role.md", "You are the role of the tests.");
    let notes = if engine == "claude" { "CLAUDE.md" } else { "AGENTS.md" };
    std::fs::write(scene.workspace.repo().join(notes), "The notes of the tests.").unwrap();
    let runner = scene.workspace.start().await;
    let (outcome, _) = runner.ask("The first message.").await;
    assert_eq!(outcome, json!({ "outcome": "complete", "text": "Committed." }));
    let session = runner.state().await["session"].clone();
    assert_eq!(session["engine"], engine);
    let first = serde_json::to_string(&scene.model.requests()[0].body).unwrap();
    for told in ["You are the role of the tests.", "The notes of the tests.", "The first message."] {
        assert!(first.contains(told), "{told}: {first}");
    }
    runner.say("The second message.").await;
    eventually("it has used something", async || {
        runner.state().await["turns"][1]["usage"]["output_tokens"] == 10
    })
    .await;
    runner.kill().await;
    let runner = scene.workspace.start().await;
    runner.stable().await;
    assert_eq!(scene.workspace.processes_of_runs(), Vec::<u32>::new());
    let (outcome, _) = runner.ask("The third message.").await;
    assert_eq!(outcome, json!({ "outcome": "complete", "text": "I remember." }));
    assert_eq!(runner.ask("The last message.").await.0, json!({ "outcome": "complete", "text": "Still." }));
    let state = runner.state().await;
    assert_eq!(state["session"], session);
    let shares = shares(&scene, &state).await;
    assert_eq!(shares, [2 * STEP, 2 * STEP, 2 * STEP, STEP]);
    let last = serde_json::to_string(&scene.model.requests().last().unwrap().body).unwrap();
    for told in ["The first message.", "The third message."] {
        assert_eq!(last.matches(told).count(), 1, "{told}: {last}");
    }
}

#[tokio::test]
async fn claude_code_goes_on_with_its_conversation_and_each_run_has_its_own_share() {
    assert_goes_on("claude").await;
}

#[tokio::test]
async fn codex_goes_on_with_its_conversation_and_each_run_has_its_own_share() {
    assert_goes_on("codex").await;
}

/// As after a person or tool has removed the CLI's own files.
async fn assert_begins_anew(engine: &'static str) {
    let script = vec![Turn::say("One."), Turn::say("Two.")];
    let Some(scene) = Scene::of(engine, script).await else { return };
    let runner = scene.workspace.start().await;
    runner.ask("The first message.").await;
    let session = runner.state().await["session"].clone();
    for folder in [".claude/projects", ".codex/sessions"] {
        std::fs::remove_dir_all(scene.workspace.repo().with_file_name(folder)).ok();
    }
    let (outcome, said) = runner.ask("The second message.").await;
    assert_eq!(outcome, json!({ "outcome": "complete", "text": "Two." }));
    assert!(said.contains("[the engine has lost the conversation; it starts a new one]"), "{said}");
    assert_ne!(runner.state().await["session"], session);
}

#[tokio::test]
async fn claude_code_begins_anew_when_its_conversation_is_gone() {
    assert_begins_anew("claude").await;
}

#[tokio::test]
async fn codex_begins_anew_when_its_conversation_is_gone() {
    assert_begins_anew("codex").await;
}
