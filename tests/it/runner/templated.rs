//! Engines known by a template: what they get, how their conversation goes on, and what they wait for.

use fleet_mcp::domain::budget::RAISE_BUDGET;
use serde_json::{Value, json};

use super::workspace::{Runner, Workspace};
use crate::harness::{eventually, script};

const WITHOUT: &str = "[without the fleet's tools: this agent has no address for them]";
/// Tells what it got; the marker of the run is the one variable that must be there.
const DUMP: &str = "printf 'arguments: %s\\n' \"$*\"\nprintf 'token: %s\\n' \"${FLEET_TOKEN-none}${CODER_AGENT_TOKEN-none}\"\n\
    printf 'marked: %s\\n' \"${FLEET_RUN:+yes}\"\ncat\n";

fn complete(text: &str) -> Value {
    json!({ "outcome": "complete", "text": text })
}

/// As the control plane leaves it for the generation that the tests' runner is told.
fn provision(workspace: &Workspace) {
    workspace.leave("token", "agent-token\n");
    workspace.leave("mcp.json", "{}");
    workspace.leave("provisioned.json", r#"{"generation":7}"#);
}

#[tokio::test]
async fn it_gets_its_role_once_and_its_conversation_goes_on_after_a_restart() {
    let workspace = Workspace::new().script(DUMP, "--new=<% newChatId %>\n--chat=<% chatId %>");
    workspace.leave("system_prompt", "You test things.");
    provision(&workspace);
    let runner = workspace.start().await;
    let (_, first) = runner.ask("One.").await;
    let session = runner.state().await["session"].clone();
    let id = session["id"].as_str().unwrap();
    let got = |arguments: String, stdin: &str| {
        format!("arguments: {arguments}\ntoken: nonenone\nmarked: yes\n{stdin}")
    };
    assert_eq!(session, json!({ "engine": "custom", "id": id }));
    assert_eq!(
        first,
        got(format!("--new={id} --chat="), "# Role\n\nYou test things.\n\n---\n\n# Task\n\nOne.")
    );
    runner.kill().await;
    let runner = workspace.start().await;
    assert_eq!(runner.ask("Two.").await.1, got(format!("--new= --chat={id}"), "Two."));
}

#[tokio::test]
async fn a_chat_is_made_first_where_the_engine_wants_one() {
    let script = "[ \"$1\" = make ] && echo chat-7 && exit\necho \"in $1\"\ncat\n";
    let workspace = Workspace::new().script(script, "<% chatId %>");
    let create = workspace.fleet().with_file_name("create.template");
    let program = create.with_file_name("agent.sh");
    std::fs::write(&create, format!("/bin/sh\n{}\nmake\n", program.display())).unwrap();
    let workspace = workspace.variable("CREATE_CHAT_TEMPLATE_PATH", create.to_str().unwrap());
    workspace.leave("role.md", "You test things.");
    provision(&workspace);
    let runner = workspace.start().await;
    let first = "in chat-7\n# Role\n\nYou test things.\n\n---\n\n# Task\n\nOne.";
    assert_eq!(runner.ask("One.").await.0, complete(first));
    assert_eq!(runner.ask("Two.").await.0, complete("in chat-7\nTwo."));
}

#[tokio::test]
async fn the_first_run_waits_for_the_fleet_and_goes_on_without_it() {
    let workspace = Workspace::new().script("echo done\n", "").variable("FLEET_BRIEFING_MS", "300");
    workspace.leave("token", "of an earlier start\n");
    workspace.leave("provisioned.json", r#"{"generation":6}"#);
    let runner = workspace.start().await;
    assert_eq!(runner.ask("One.").await, (complete("done"), format!("{WITHOUT}\ndone")));
    provision(&workspace);
    assert_eq!(runner.ask("Two.").await, (complete("done"), "done".to_owned()));
}

#[tokio::test]
async fn provisioning_in_time_is_used_and_the_wait_for_it_can_be_interrupted() {
    let workspace = Workspace::new().script("echo done\n", "").variable("FLEET_BRIEFING_MS", "600000");
    let runner = workspace.start().await;
    let is_under_way = async |runner: &Runner, turn: usize| {
        eventually("it is under way", async || runner.state().await["turns"][turn]["state"] == "working")
            .await;
    };
    runner.say("One.").await;
    is_under_way(&runner, 0).await;
    runner.escape().await;
    runner.stable().await;
    let interrupted = json!({ "outcome": "interrupted", "by": "request" });
    assert_eq!(runner.outcomes().await.pop().unwrap().1, interrupted);
    runner.kill().await;
    let runner = workspace.start().await;
    runner.say("Two.").await;
    is_under_way(&runner, 1).await;
    provision(&workspace);
    runner.stable().await;
    assert_eq!(runner.outcomes().await.pop().unwrap().1, complete("done"));
}

#[tokio::test]
async fn the_first_run_has_the_budget_that_arrives_with_its_provisioning() {
    let workspace = Workspace::new().script("echo done\n", "").variable("FLEET_BRIEFING_MS", "600000");
    let runner = workspace.start().await;
    runner.say("One.").await;
    eventually("it is under way", async || runner.state().await["turns"][0]["state"] == "working").await;
    workspace.leave("budget.json", r#"{"max_cost_usd":null,"max_tokens":0}"#);
    provision(&workspace);
    runner.stable().await;
    let text = format!("not started: the budget is used up (0 of 0 tokens used); {RAISE_BUDGET}");
    let refused = json!({ "outcome": "failed", "kind": "budget", "text": text });
    assert_eq!(runner.outcomes().await.pop().unwrap().1, refused);
}

#[tokio::test]
async fn a_spec_that_is_interrupted_during_the_start_is_delivered_first_and_its_conversation_goes_on() {
    let script = "printf '%s\\n' \"$*\"\nread -r line\n[ \"$line\" = next ] || exec sleep 600\n";
    let workspace = Workspace::new()
        .script(script, "--new=<% newChatId %>\n--chat=<% chatId %>")
        .variable("FLEET_BRIEFING_MS", "600000")
        .prompt("spec");
    let runner = workspace.start().await;
    eventually("the spec is under way", async || runner.state().await["turns"][0]["state"] == "working")
        .await;
    runner.taken(&json!({ "content": "\u{1b}", "type": "raw", "task_id": "prompt", "cancel": true })).await;
    provision(&workspace);
    runner.stable().await;
    let interrupted = json!({ "outcome": "interrupted", "by": "request" });
    assert_eq!(runner.outcomes().await.pop().unwrap().1, interrupted);
    let session = runner.state().await["session"]["id"].as_str().map(str::to_owned);
    let id = session.expect("the engine has had the spec");
    assert_eq!(runner.ask("next").await.1, format!("--new= --chat={id}"));
}

#[tokio::test]
async fn failures_are_told_by_exit_code_and_last_words() {
    let script = "read -r line\ncase $line in\nkey) echo 'Error: invalid API key' >&2; exit 1;;\n\
        limit) echo 'error: usage limit reached, try again at 5 PM' >&2; exit 1;;\n\
        die) kill -9 $$;;\n*) echo odd >&2; exit 3;;\nesac\n";
    let workspace = Workspace::new().script(script, "");
    provision(&workspace);
    let runner = workspace.start().await;
    let failed = |kind: &str, text: &str| json!({ "outcome": "failed", "kind": kind, "text": text });
    for (message, outcome) in [
        ("key", failed("auth", "invalid API key")),
        ("limit", failed("usage_limit", "usage limit reached, try again at 5 PM")),
        ("die", failed("crashed", "the engine ended with signal: 9 (SIGKILL)")),
        ("else", failed("crashed", "the engine ended with exit status: 3: odd")),
    ] {
        assert_eq!(runner.ask(message).await.0, outcome, "{message}");
    }
}

#[tokio::test]
async fn turns_that_reported_no_usage_are_counted_over_restarts() {
    let workspace = Workspace::new().script("read -r line\n[ $line = well ]\n", "");
    provision(&workspace);
    let published = || serde_json::from_str::<Value>(&workspace.metadata("fleet_mcp_usage")).unwrap();
    let unknown = |n_runs: u64| json!({ "input_tokens": 0, "output_tokens": 0, "cost_usd": null, "unknown_runs": n_runs });
    let runner = workspace.start().await;
    for message in ["well", "badly"] {
        runner.ask(message).await;
    }
    assert_eq!((published(), runner.state().await["usage"].clone()), (unknown(2), unknown(2)));
    runner.kill().await;
    let runner = workspace.start().await;
    runner.ask("well").await;
    assert_eq!(published(), unknown(3));
}

#[tokio::test]
async fn an_engine_that_is_not_there_fails_the_run_and_is_found_once_it_is() {
    let workspace = Workspace::new().variable("FLEET_ENGINE", "auto").variable("FLEET_BRIEFING_MS", "1");
    let programs = workspace.fleet().with_file_name("programs");
    std::fs::create_dir(&programs).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let git = fleet_mcp::engine::installed::program("git", &path).unwrap();
    std::os::unix::fs::symlink(git, programs.join("git")).unwrap();
    let workspace = workspace.variable("PATH", programs.to_str().unwrap());
    let runner = workspace.start().await;
    let text = "neither claude nor codex is installed here; install one of them, or use --engine demo";
    let missing = json!({ "outcome": "failed", "kind": "engine_missing", "text": text });
    assert_eq!(runner.ask("Do it.").await.0, missing);
    assert_eq!(runner.state().await["usage"].get("unknown_runs"), None, "no engine ran");
    let claude = "#!/bin/sh\n[ \"$1\" = --version ] && echo '2.1.325 (Claude Code)' && exit\n\
        echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"did it\",\"session_id\":\"s\"}'\n";
    script(&programs.join("claude"), claude);
    assert_eq!(runner.ask("Do it.").await.0, complete("did it"));
    assert_eq!(runner.get("/status").await["agent_type"], "claude");
}

#[tokio::test]
async fn an_answer_that_ends_with_a_question_is_told_as_one() {
    let workspace = Workspace::new().script("cat\nprintf '\n\nWhich one?\n\n'\n", "run");
    provision(&workspace);
    let runner = workspace.start().await;
    let question = json!({ "outcome": "question", "text": "Both would do.\n\nWhich one?" });
    assert_eq!(runner.ask("Both would do.").await.0, question);
}
