//! Budgets of tasks by exec: what a run uses is known while it goes, and the run that crosses its budget is stopped.

use fleet_mcp::domain::budget::RAISE_BUDGET;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

/// About 2,000 tokens, then a wait that only a stop ends.
const SPENDING: &str = "print 8KB\nsleep 600\ncommit never";
const TOKENS: u64 = 2_000;

fn stopped() -> String {
    format!("stopped: the budget is used up; {RAISE_BUDGET}")
}

/// A program whose agents may use so many tokens each and whose tasks run by exec.
fn program(engine: &str, max_tokens: Option<u64>) -> Program {
    let program = Program::without_coder();
    let projects = program.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    let file =
        format!("name = \"setup\"\ntemplate = \"setup\"\napp_slug = \"none\"\nengine = \"{engine}\"\n");
    std::fs::write(projects.join("setup.toml"), file).unwrap();
    match max_tokens {
        Some(max) => program.with_settings(&format!("[agents]\nmax_tokens = {max}\n")),
        None => program,
    }
}

/// A server whose Claude Code runs this script with its message, and uses 15 tokens for any other.
async fn with_script(script: &str, max_tokens: Option<u64>) -> Up {
    let cli = r#"case $1 in --version) echo '2.1.325 (Claude Code)'; exit ;; esac
usage='{"input_tokens":900,"output_tokens":1}'
case $(cat) in SCRIPT esac
model='{"inputTokens":10,"outputTokens":5}'
echo '{"type":"result","result":"Ready.","session_id":"s","total_cost_usd":0.1,"modelUsage":{"m":'"$model"'}}'"#;
    Up::start(&program("claude", max_tokens).with_command("claude", &cli.replace("SCRIPT", script))).await
}

async fn give(up: &Up, text: &str) {
    let task = json!({ "task_description": text });
    let path = "/api/v1/agents/one/tasks";
    let reply = up.call_as(&up.operator_token(), Method::POST, path, &task).await;
    assert_eq!(reply.status, 201, "{}", reply.body);
}

async fn ended(up: &Up, text: &str) -> Value {
    eventually("the task has ended", async || {
        let shown = up.show("one").await;
        shown["status"] == "idle" && shown["last_task"]["message"] == text
    })
    .await;
    up.show("one").await["last_task"].clone()
}

async fn tokens(up: &Up) -> u64 {
    up.show("one").await["usage"]["tokens"].as_u64().unwrap_or_default()
}

/// The agent with the tokens of its spec, which its runner did.
async fn with_agent(up: &Up) -> u64 {
    up.agent("one").await;
    eventually("the runner's count is seen", async || tokens(up).await > 0).await;
    tokens(up).await
}

fn assert_failed(task: &Value, outcome: &str) {
    assert_eq!((&task["state"], &task["outcome"]), (&json!("failed"), &json!(outcome)), "{task}");
}

fn subjects(up: &Up) -> String {
    let repository = up.workspace("one").join("repo");
    let told =
        std::process::Command::new("git").arg("-C").arg(repository).args(["log", "--format=%s"]).output();
    String::from_utf8(told.unwrap().stdout).unwrap()
}

#[tokio::test]
async fn a_run_that_crosses_the_budget_is_stopped_while_it_goes() {
    let up = Up::start(&program("demo", Some(500))).await;
    with_agent(&up).await;
    give(&up, SPENDING).await;
    assert_failed(&ended(&up, SPENDING).await, &stopped());
    assert!(tokens(&up).await >= TOKENS);
    assert!(!subjects(&up).contains("never"));
    let used = tokens(&up).await;
    give(&up, "commit nothing more").await;
    let outcome = format!("not started: the budget is used up ({used} of 500 tokens used); {RAISE_BUDGET}");
    assert_failed(&ended(&up, "commit nothing more").await, &outcome);
}

#[tokio::test]
async fn usage_of_a_run_is_known_while_it_goes_and_counted_once() {
    let up = Up::start(&program("demo", None)).await;
    with_agent(&up).await;
    give(&up, SPENDING).await;
    eventually("its use is known", async || tokens(&up).await >= TOKENS).await;
    assert_eq!(up.show("one").await["status"], "busy");
    let used = tokens(&up).await;
    up.tool_as(&up.operator_token(), "cancel_agent_task", &json!({ "agent_name": "one" })).await;
    assert_eq!(ended(&up, SPENDING).await["state"], "canceled");
    assert_eq!(tokens(&up).await, used);
    assert_eq!(up.get("/api/v1/status").await["spend_today"]["tokens"], used);
}

/// Claude Code tells with each message what it has read for it.
#[tokio::test]
async fn claude_code_is_stopped_at_the_message_that_crosses_the_budget() {
    let cli = r#"*Overspend*)
  echo '{"type":"assistant","message":{"id":"m-1","content":[{"type":"text","text":"Half."}],"usage":'"$usage"'}}'
  sleep 600 ;;
"#;
    let up = with_script(cli, Some(500)).await;
    assert_eq!(with_agent(&up).await, 15);
    give(&up, "Overspend.").await;
    assert_failed(&ended(&up, "Overspend.").await, &stopped());
    assert_eq!(tokens(&up).await, 916);
}

/// Of the output only the beginning is stored, and figures in the rest are unknown.
#[tokio::test]
async fn a_run_that_prints_more_than_is_stored_is_counted_as_unknown_too() {
    let cli = r#"*Flood*)
  echo '{"type":"assistant","message":{"id":"m-1","content":[],"usage":'"$usage"'}}'
  head -c 11000000 /dev/zero | tr '\0' '\n'
  exit ;;
"#;
    let up = with_script(cli, None).await;
    assert_eq!(with_agent(&up).await, 15);
    give(&up, "Flood.").await;
    assert_eq!(ended(&up, "Flood.").await["state"], "done");
    let usage = up.show("one").await["usage"].clone();
    assert_eq!((&usage["tokens"], &usage["unknown_runs"]), (&json!(916), &json!(1)), "{usage}");
}

/// The counts of a run that a kill cut short are those of one that was left alone.
#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn a_kill_at_any_step_of_a_stop_leaves_one_run_that_is_counted_once() {
    for point in ["run.started", "run.over_budget", "run.counted"] {
        let up = Up::start(&program("demo", Some(500))).await;
        let before = with_agent(&up).await;
        let doomed = Up::start(&up.killed().await.variable("FLEET_KILL_POINT", point)).await;
        eventually("the agent rests", async || doomed.show("one").await["status"] == "idle").await;
        let task = json!({ "task_description": SPENDING });
        doomed.call_or_nothing(&doomed.operator_token(), "/api/v1/agents/one/tasks", &task).await;
        let up = Up::start(&doomed.died().await.variable("FLEET_KILL_POINT", "")).await;
        assert_failed(&ended(&up, SPENDING).await, &stopped());
        let (printed, asked) = (8_000u64.div_ceil(4), (SPENDING.len() as u64).div_ceil(4));
        assert_eq!(tokens(&up).await - before, printed + asked, "{point}");
    }
}
