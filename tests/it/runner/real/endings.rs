//! Ends of the real CLIs that are not their own: an interrupt, a budget, a key that is refused.

use serde_json::json;

use super::Scene;
use crate::harness::{Turn, eventually};

/// A child in a session of its own is what survives most ways of ending its parent.
async fn assert_interrupted(engine: &'static str) {
    let script = vec![Turn::shell("setsid sleep 600 & sleep 600"), Turn::say("Again.")];
    let Some(scene) = Scene::of(engine, script).await else { return };
    let runner = scene.workspace.start().await;
    runner.say("Do it.").await;
    eventually("the tool runs", async || {
        let running = scene.workspace.processes_of_runs();
        let sleeps = running.iter().filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
        });
        sleeps.count() >= 2
    })
    .await;
    runner.escape().await;
    runner.stable().await;
    let interrupted = json!({ "outcome": "interrupted", "by": "request" });
    assert_eq!(runner.outcomes().await.pop().unwrap().1, interrupted);
    assert_eq!(scene.workspace.processes_of_runs(), Vec::<u32>::new());
    assert_eq!(runner.ask("Go on.").await.0, json!({ "outcome": "complete", "text": "Again." }));
}

#[tokio::test]
async fn escape_ends_claude_code_with_all_it_has_started() {
    assert_interrupted("claude").await;
}

#[tokio::test]
async fn escape_ends_codex_with_all_it_has_started() {
    assert_interrupted("codex").await;
}

/// The budget is crossed by the model's first answer; the tool it asks for would never end.
async fn assert_stopped_by_budget(engine: &'static str) {
    let script = vec![Turn::shell("sleep 600; touch never"), Turn::say("never")];
    let Some(scene) = Scene::of(engine, script).await else { return };
    scene.workspace.leave("budget.json", r#"{"max_cost_usd":null,"max_tokens":12}"#);
    let runner = scene.workspace.start().await;
    let (outcome, _) = runner.ask("Do it.").await;
    let text = "stopped: this agent's budget is used up; raise it to go on";
    assert_eq!(outcome, json!({ "outcome": "failed", "kind": "budget", "text": text }));
    assert_eq!(scene.workspace.processes_of_runs(), Vec::<u32>::new());
    assert_eq!(scene.model.n_played(), 1);
    assert!(!scene.workspace.repo().join("never").exists());
}

#[tokio::test]
async fn claude_code_is_stopped_while_it_goes_when_it_crosses_its_budget() {
    assert_stopped_by_budget("claude").await;
}

#[tokio::test]
async fn codex_is_stopped_while_it_goes_when_it_crosses_its_budget() {
    assert_stopped_by_budget("codex").await;
}
