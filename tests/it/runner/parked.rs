//! Stops and late words: what a stop parks goes on in the engine's session, and what is withdrawn never runs.

use serde_json::{Value, json};

use super::workspace::{Runner, Workspace};
use crate::harness::eventually;

fn interrupted(by: &str) -> Value {
    json!({ "outcome": "interrupted", "by": by })
}

impl Runner {
    async fn cancel(&self, task_id: &str) {
        let body = json!({ "content": "\u{1b}", "type": "raw", "task_id": task_id, "cancel": true });
        self.taken(&body).await;
    }

    /// Tells it to go on with what the engine's session knows.
    pub(super) async fn go_on(&self, task_id: &str) {
        let content = fleet_mcp::domain::task::CONTINUE_MESSAGE;
        let body = json!({ "content": content, "type": "user", "task_id": task_id, "continues": true });
        self.taken(&body).await;
    }
}

#[tokio::test]
async fn a_parked_run_goes_on_where_it_stopped_in_the_same_session() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.task("a", "commit First half\nsay half\nsleep 600\ncommit Second half").await;
    // The engine notes a directive as obeyed before it says the next one's words.
    runner.says("half").await;
    let session = runner.state().await["session"].clone();
    assert_eq!(runner.terminate().await, Some(0));
    let runner = workspace.start().await;
    assert_eq!(runner.outcomes().await, [(json!("a"), interrupted("park"))], "it does not go on by itself");
    runner.go_on("a.2").await;
    eventually("it goes on", async || runner.state().await["turns"][1]["state"] == "working").await;
    assert_eq!(runner.state().await["session"], session);
    runner.cancel("a.2").await;
    runner.stable().await;
    assert_eq!(workspace.commits(), ["First half"], "what was done is not done again");
}

#[tokio::test]
async fn an_engine_without_a_session_is_interrupted_by_a_stop_and_never_begun_anew() {
    let workspace = Workspace::new().script("echo begun >> runs\nsleep 600\n", "");
    let workspace = workspace.variable("FLEET_BRIEFING_MS", "1");
    let runner = workspace.start().await;
    runner.task("a", "Do it.").await;
    let runs = workspace.repo().join("runs");
    eventually("it runs", async || runs.exists()).await;
    assert_eq!(runner.terminate().await, Some(0));
    let runner = workspace.start().await;
    assert_eq!(runner.outcomes().await, [(json!("a"), interrupted("stop"))]);
    runner.go_on("a.2").await;
    runner.stable().await;
    let text = "interrupted: the engine has lost the conversation of this task; it is not run again";
    let failed = json!({ "outcome": "failed", "kind": "engine_error", "text": text });
    assert_eq!(runner.outcomes().await.pop(), Some((json!("a.2"), failed)));
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "begun\n");
}

#[tokio::test]
async fn a_task_that_is_canceled_before_it_comes_is_not_taken_when_it_comes_late() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.cancel("late").await;
    let over = [(json!("late"), interrupted("request"))];
    eventually("it is withdrawn", async || runner.outcomes().await == over).await;
    runner.task("late", "commit Too late").await;
    runner.kill().await;
    let runner = workspace.start().await;
    runner.task("late", "commit Too late").await;
    runner.stable().await;
    assert_eq!(runner.outcomes().await, over);
    assert_eq!(workspace.commits(), Vec::<String>::new());
}

#[tokio::test]
async fn first_prompt_is_interrupted_by_its_own_name_once_the_engine_has_it() {
    let workspace = Workspace::new().prompt("sleep 600");
    let runner = workspace.start().await;
    runner.cancel("prompt").await;
    runner.task("next", "say next").await;
    runner.cancel("prompt").await;
    runner.stable().await;
    let complete = json!({ "outcome": "complete", "text": "next" });
    assert_eq!(runner.outcomes().await, [(json!(null), interrupted("request")), (json!("next"), complete)]);
    assert_ne!(runner.state().await["session"], json!(null), "the engine had it");
}
