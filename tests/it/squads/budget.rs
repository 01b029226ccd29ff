//! Budgets of members: one that crosses what its workspace may use is stopped while it goes.

use fleet_mcp::domain::budget::RAISE_BUDGET;
use serde_json::{Value, json};

use super::{Squads, member};
use crate::harness::{Program, eventually};

/// About 2,000 tokens, then a wait that only a stop ends.
const SPENDING: &str = "print 8KB\nsleep 600\ncommit never";

const TOKENS: &str = "[agents]\nmax_tokens = 500\n";

fn was_stopped() -> String {
    format!("was stopped: the budget is used up; {RAISE_BUDGET}")
}

async fn squads() -> Squads {
    Squads::on(Program::without_coder().with_settings(TOKENS)).await
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

/// Each message of a member is reported with what the model has read for it; a task of the agent itself uses 15 tokens.
const CLAUDE: &str = r#"case $1 in --version) echo '2.1.325 (Claude Code)'; exit ;; esac
mode=$(echo "$*" | grep -o 'session-id\|resume')
n=0
message() {
  n=$((n + 1))
  usage='{"input_tokens":'$1',"output_tokens":0}'
  echo '{"type":"assistant","message":{"id":"'$mode-$$-$n'","content":[{"type":"text","text":"Half."}],"usage":'"$usage"'}}'
}
result() {
  model='{"inputTokens":'$1',"outputTokens":0}'
  echo '{"type":"result","result":"Ready.","session_id":"s","total_cost_usd":0.1,"modelUsage":{"m":'"$model"'}}'
}
case $(cat) in
*Overspend.*) message 900; exec sleep 600 ;;
*"Share it."*) while :; do message 100; sleep 0.2; done ;;
*Begin.*) message 300; result 300 ;;
*Continue.*) message 300; exec sleep 600 ;;
*Finish.*) message 200; result 500 ;;
*Conclude.*) trap 'result 900; exit' TERM; message 900; sleep 600 & wait ;;
*) result 15 ;;
esac"#;

fn with_claude(budget: &str) -> Program {
    let program = super::engines::with_cli("claude", CLAUDE).variable("PROCESS_TIMEOUT_MS", "30000");
    program.with_settings(&format!("[agents]\n{budget}\n"))
}

async fn with_claude_agent(budget: &str) -> Squads {
    let squads = Squads::on(with_claude(budget).variable("STATE_MODE", "stateful")).await;
    squads.up.agent("one").await;
    eventually("the runner's count is seen", async || squads.up.show("one").await["usage"]["tokens"] == 15)
        .await;
    squads
}

/// The CLI gets the cost that is left, and prints text unless a budget needs its figures.
#[tokio::test]
async fn claude_code_prints_events_only_for_a_budget_and_gets_the_cost_that_is_left() {
    for (budget, format, ending) in [
        ("", "text --setting-sources", "Grep\n"),
        ("max_tokens = 500", "stream-json --verbose --setting-sources", "Grep\n"),
        ("max_cost_usd = 1.5", "stream-json --verbose --setting-sources", "--max-budget-usd 1.500000\n"),
    ] {
        let program = super::engines::with_cli("claude", "echo \"$@\"");
        let squads = Squads::on(program.with_settings(&format!("[agents]\n{budget}\n"))).await;
        let done = squads.run_one(member("coder", "hello")).await;
        let arguments = done["rawStdout"].as_str().unwrap();
        assert!(arguments.starts_with(&format!("-p --output-format {format} ")), "{done}");
        assert!(arguments.ends_with(&format!(" {ending}")) || arguments.ends_with(ending), "{done}");
    }
}

#[tokio::test]
async fn a_member_of_claude_code_is_stopped_at_the_message_that_crosses_a_token_limit() {
    let squads = Squads::on(with_claude("max_tokens = 500")).await;
    let stopped = squads.run_one(member("coder", "Overspend.")).await;
    assert_eq!(
        (&stopped["status"], &stopped["reason"]),
        (&json!("error"), &json!(was_stopped())),
        "{stopped}"
    );
    assert_eq!(squads.up.get("/api/v1/status").await["spend_today"]["tokens"], 900);
}

#[tokio::test]
async fn a_member_that_reports_its_outcome_before_the_stop_reaches_it_has_completed() {
    let squads = Squads::on(with_claude("max_tokens = 500")).await;
    let done = squads.run_one(member("coder", "Conclude.")).await;
    assert_eq!((&done["status"], &done["reason"]), (&json!("completed"), &Value::Null), "{done}");
    assert_eq!(squads.up.get("/api/v1/status").await["spend_today"]["tokens"], 900);
}

/// Each of them would stay within the budget alone for five messages.
#[tokio::test]
async fn parallel_members_in_one_workspace_cannot_use_the_same_budget_twice() {
    let squads = with_claude_agent("max_tokens = 515").await;
    let done = squads.run(&json!([in_agent("Share it."), in_agent("Share it.")])).await;
    let reasons = done["members"].as_array().unwrap().iter().map(|member| &member["reason"]);
    assert_eq!(reasons.collect::<Vec<_>>(), [&json!(was_stopped()), &json!(was_stopped())], "{done}");
    let messages = |member: &Value| member["rawStdout"].as_str().unwrap().lines().count();
    let [one, other] = [0, 1].map(|at| messages(&done["members"][at]));
    assert!(one < 5 || other < 5, "{one} and {other} messages: {done}");
}

/// The first part of the conversation has used 300 tokens, so the second message of 300 crosses 500.
#[tokio::test]
async fn a_member_that_continues_a_conversation_is_counted_on_top_of_its_earlier_members() {
    let squads = with_claude_agent("max_tokens = 500").await;
    let first = squads.run_one(in_agent("Begin.")).await;
    assert_eq!(first["status"], "completed", "{first}");
    let next = json!({
        "roleId": "coder", "task": "Continue.", "agent_name": "one", "chatId": first["chatId"],
    });
    let stopped = squads.run_one(next).await;
    assert_eq!(stopped["reason"], was_stopped(), "{stopped}");
    assert_eq!(squads.up.get("/api/v1/status").await["spend_today"]["tokens"], 615);
}

/// The CLI's own total lacks the run that was ended: 500 instead of 800.
#[tokio::test]
async fn a_conversation_is_counted_with_the_members_that_did_not_end_by_themselves() {
    let program = with_claude("max_tokens = 10000").variable("PROCESS_TIMEOUT_MS", "2000");
    let squads = Squads::on(program.variable("STATE_MODE", "stateful")).await;
    let mut spent = Vec::new();
    let mut chat = Value::Null;
    for task in ["Begin.", "Continue.", "Finish."] {
        let mut next = member("coder", task);
        if chat.is_string() {
            next["chatId"] = chat;
        }
        let done = squads.run_one(next).await;
        let tokens = squads.up.get("/api/v1/status").await["spend_today"]["tokens"].clone();
        spent.push((done["status"].clone(), tokens));
        chat = done["chatId"].clone();
    }
    let expected = [("completed", 300), ("timeout", 600), ("completed", 800)];
    assert_eq!(spent, expected.map(|(status, tokens)| (json!(status), json!(tokens))));
}

/// A forged outcome would switch the budget off otherwise.
#[tokio::test]
async fn a_member_that_goes_on_after_its_outcome_is_stopped_all_the_same() {
    let codex = r#"case $1 in sandbox) exit ;; esac
turn() { echo "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":$1,\"output_tokens\":5}}"; }
echo '{"type":"thread.started","thread_id":"th-1"}'
turn 100; sleep 1; turn 100000; exec sleep 600"#;
    let squads = Squads::on(super::engines::with_cli("codex", codex).with_settings(TOKENS)).await;
    let stopped = squads.run_one(member("coder", "hello")).await;
    assert_eq!(
        (&stopped["status"], &stopped["reason"]),
        (&json!("error"), &json!(was_stopped())),
        "{stopped}"
    );
}
