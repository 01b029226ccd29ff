//! Budgets of members: one that crosses what its workspace may use is stopped while it goes.

use fleet_mcp::domain::budget::RAISE_BUDGET;
use serde_json::{Value, json};

use super::{Squads, member};
use crate::harness::{Program, eventually};

/// About 2,000 tokens, then a wait that only a stop ends.
const SPENDING: &str = "print 8KB\nsleep 600\ncommit never";

fn was_stopped() -> String {
    format!("was stopped: the budget is used up; {RAISE_BUDGET}")
}

async fn squads() -> Squads {
    let program = Program::without_coder();
    std::fs::create_dir_all(program.data_dir()).unwrap();
    std::fs::write(program.data_dir().join("fleet.toml"), "[agents]\nmax_tokens = 500\n").unwrap();
    Squads::on(program).await
}

fn in_agent(task: &str) -> Value {
    json!({ "roleId": "coder", "task": task, "agent_name": "one" })
}

/// A workspace for runs lives on, so each member has a whole budget there.
#[tokio::test]
async fn a_member_that_crosses_the_budget_is_stopped_with_what_it_printed_and_the_next_one_works() {
    let squads = squads().await;
    let stopped = squads.run_one(member("coder", SPENDING)).await;
    assert_eq!(
        (&stopped["status"], &stopped["reason"]),
        (&json!("error"), &json!(was_stopped())),
        "{stopped}"
    );
    assert_eq!(stopped["stdout_bytes"], 8_000);
    let next = squads.run_one(member("coder", "say fine")).await;
    assert_eq!((&next["status"], &next["rawStdout"]), (&json!("completed"), &json!("fine\n")));
    assert_eq!(squads.up.get("/api/v1/status").await["spend_today"]["tokens"], 2_002);
}

#[tokio::test]
async fn members_in_an_agents_workspace_share_what_the_agent_has_left() {
    let squads = squads().await;
    squads.up.agent("one").await;
    let tokens = async || squads.up.show("one").await["usage"]["tokens"].as_u64().unwrap_or_default();
    eventually("the runner's count is seen", async || tokens().await > 0).await;
    let stopped = squads.run_one(in_agent(SPENDING)).await;
    assert_eq!(stopped["reason"], was_stopped(), "{stopped}");
    let used = tokens().await;
    let refused = squads.run_one(in_agent("say fine")).await;
    let reason = format!("not started: the budget is used up ({used} of 500 tokens used); {RAISE_BUDGET}");
    assert_eq!((&refused["status"], &refused["reason"]), (&json!("error"), &json!(reason)));
}

/// Its members print words, so the CLI itself is told what is left.
#[tokio::test]
async fn claude_code_is_given_the_cost_that_is_left() {
    let program = super::engines::with_cli("claude", "echo \"$@\"");
    std::fs::create_dir_all(program.data_dir()).unwrap();
    std::fs::write(program.data_dir().join("fleet.toml"), "[agents]\nmax_cost_usd = 1.5\n").unwrap();
    let squads = Squads::on(program).await;
    let done = squads.run_one(member("coder", "hello")).await;
    let said = done["rawStdout"].as_str().unwrap();
    assert!(said.ends_with(" --max-budget-usd 1.500000\n"), "{done}");
}

/// A forged outcome would switch the budget off otherwise.
#[tokio::test]
async fn a_member_that_goes_on_after_its_outcome_is_stopped_all_the_same() {
    let codex = r#"case $1 in sandbox) exit ;; esac
turn() { echo "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":$1,\"output_tokens\":5}}"; }
echo '{"type":"thread.started","thread_id":"th-1"}'
turn 100; sleep 1; turn 100000; exec sleep 600"#;
    let program = super::engines::with_cli("codex", codex);
    std::fs::create_dir_all(program.data_dir()).unwrap();
    std::fs::write(program.data_dir().join("fleet.toml"), "[agents]\nmax_tokens = 500\n").unwrap();
    let squads = Squads::on(program).await;
    let stopped = squads.run_one(member("coder", "hello")).await;
    assert_eq!(
        (&stopped["status"], &stopped["reason"]),
        (&json!("error"), &json!(was_stopped())),
        "{stopped}"
    );
}
