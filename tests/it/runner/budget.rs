//! A budget ends a run in the middle, and nothing more is run until it is raised.

use fleet_mcp::domain::budget::RAISE_BUDGET;
use serde_json::json;

use super::workspace::Workspace;
use crate::harness::eventually;

const SPENDING: &str = "say one two three four five six seven\nsleep 600\ncommit never";

fn tokens(max: u64) -> String {
    json!({ "max_cost_usd": null, "max_tokens": max }).to_string()
}

#[tokio::test]
async fn a_run_that_crosses_the_budget_is_stopped_while_it_goes() {
    let workspace = Workspace::new();
    workspace.leave("budget.json", &tokens(20));
    let runner = workspace.start().await;
    let (outcome, said) = runner.ask(&format!("fork\n{SPENDING}")).await;
    let text = "stopped: the budget is used up; raise max_cost_usd or max_tokens ([agents] in fleet.toml, or the role \
                file), then restart the server and the agent";
    assert_eq!(outcome, json!({ "outcome": "failed", "kind": "budget", "text": text }));
    assert_eq!(said, format!("one two three four five six seven\n{text}"));
    assert_eq!(workspace.processes_of_runs(), Vec::<u32>::new());
    assert_eq!(workspace.commits(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_more_is_taken_or_run_until_the_budget_is_raised() {
    let workspace = Workspace::new();
    workspace.leave("budget.json", &tokens(20));
    let runner = workspace.start().await;
    runner.task("first", SPENDING).await;
    runner.task("second", "say never").await;
    runner.stable().await;
    let state = runner.state().await;
    let used =
        state["usage"]["input_tokens"].as_u64().unwrap() + state["usage"]["output_tokens"].as_u64().unwrap();
    let problem = format!("the budget is used up ({used} of 20 tokens used); {RAISE_BUDGET}");
    let not_run = json!({ "outcome": "failed", "kind": "budget", "text": format!("not started: {problem}") });
    assert_eq!(runner.outcomes().await.pop().unwrap(), (json!("second"), not_run));
    assert_eq!(state["budget"], json!({ "max_cost_usd": null, "max_tokens": 20, "is_used_up": true }));
    let third = json!({ "content": "say third", "type": "user", "task_id": "third" });
    let refused = runner.post(&third).await;
    assert_eq!((refused.status, &refused.body["detail"]), (402, &json!(problem)));
    // A task that was accepted before stays accepted, with any budget left.
    runner.task("second", "say never").await;
    workspace.leave("budget.json", &tokens(10_000));
    runner.taken(&third).await;
    runner.stable().await;
    let complete = json!({ "outcome": "complete", "text": "third" });
    assert_eq!(runner.outcomes().await.pop().unwrap(), (json!("third"), complete));
}

#[tokio::test]
async fn a_kill_in_the_middle_does_not_make_spent_tokens_look_unspent() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.say("print 8KB\nsleep 600").await;
    let used = async || runner.state().await["usage"]["output_tokens"].clone();
    eventually("it has used something", async || used().await == 2_000).await;
    runner.kill().await;
    workspace.leave("budget.json", &tokens(2_000));
    let runner = workspace.start().await;
    assert_eq!(runner.state().await["turns"][0]["usage"]["output_tokens"], json!(2_000));
    let refused = runner.post(&json!({ "content": "say x", "type": "user" })).await;
    assert_eq!(refused.status, 402);
}

#[tokio::test]
async fn a_budget_that_cannot_be_read_stops_the_spending() {
    let workspace = Workspace::new();
    workspace.leave("budget.json", "{");
    let runner = workspace.start().await;
    let refused = runner.post(&json!({ "content": "say x", "type": "user" })).await;
    let detail = "this agent's budget cannot be read (EOF while parsing an object at line 1 column 1); \
                  restart the agent to write it again";
    assert_eq!((refused.status, &refused.body["detail"]), (409, &json!(detail)));
    assert_eq!(runner.state().await["budget"]["is_used_up"], json!(true));
}
