//! Ends of the real CLIs that are not their own: an interrupt, a budget, a key that is refused.

use fleet_mcp::domain::budget::RAISE_BUDGET;
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
    let text = format!("stopped: the budget is used up; {RAISE_BUDGET}");
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

/// A stop in the middle of a tool: the next runner tells the same session to go on, which knows the message.
async fn assert_parked(engine: &'static str) {
    let script = vec![Turn::shell("touch began; sleep 600"), Turn::say("Went on.")];
    let Some(scene) = Scene::of(engine, script).await else { return };
    let runner = scene.workspace.start().await;
    runner.task("a", "The message to go on with.").await;
    eventually("the tool runs", async || scene.workspace.repo().join("began").exists()).await;
    let session = runner.state().await["session"].clone();
    assert_eq!(runner.terminate().await, Some(0));
    let runner = scene.workspace.start().await;
    let parked = json!({ "outcome": "interrupted", "by": "park" });
    assert_eq!(runner.outcomes().await, [(json!("a"), parked)]);
    runner.go_on("a.2").await;
    runner.stable().await;
    let complete = json!({ "outcome": "complete", "text": "Went on." });
    assert_eq!(runner.outcomes().await.pop(), Some((json!("a.2"), complete)));
    assert_eq!(runner.state().await["session"], session);
    let last = serde_json::to_string(&scene.model.requests().last().unwrap().body).unwrap();
    for told in ["The message to go on with.", "You were interrupted by a restart"] {
        assert!(last.contains(told), "{told}: {last}");
    }
}

#[tokio::test]
async fn claude_code_goes_on_in_its_session_after_a_stop() {
    assert_parked("claude").await;
}

#[tokio::test]
async fn codex_goes_on_in_its_session_after_a_stop() {
    assert_parked("codex").await;
}

/// A spec that is interrupted while the model answers is known to what comes after it.
async fn assert_spec_delivered(engine: &'static str) {
    let script = vec![Turn::shell("sleep 600"), Turn::say("Did the other thing.")];
    let Some(scene) = Scene::of(engine, script).await else { return };
    scene.workspace.leave("prompt", "The spec of the tests.");
    let runner = scene.workspace.start().await;
    eventually("the model has the spec", async || {
        let requests = scene.model.requests();
        requests.iter().any(|request| request.body.to_string().contains("The spec of the tests."))
    })
    .await;
    let cancel = json!({ "content": "\u{1b}", "type": "raw", "task_id": "prompt", "cancel": true });
    runner.taken(&cancel).await;
    eventually("the spec is interrupted", async || {
        runner.taken(&cancel).await;
        runner.get("/status").await["status"] == "stable"
    })
    .await;
    runner.ask("Do another thing.").await;
    let last = serde_json::to_string(&scene.model.requests().last().unwrap().body).unwrap();
    for told in ["The spec of the tests.", "Do another thing."] {
        assert!(last.contains(told), "{told}: {last}");
    }
}

#[tokio::test]
async fn claude_code_has_its_spec_before_that_is_interrupted() {
    assert_spec_delivered("claude").await;
}

#[tokio::test]
async fn codex_has_its_spec_before_that_is_interrupted() {
    assert_spec_delivered("codex").await;
}
