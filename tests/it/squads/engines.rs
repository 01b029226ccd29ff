//! The engines that come with us, as members: what each is told, where it may look, and what there is without any.

use std::path::Path;

use serde_json::{Value, json};

use super::{Squads, member};
use crate::harness::{Program, skipped};

/// A program in whose PATH this engine is that script.
pub(super) fn with_cli(engine: &str, text: &str) -> Program {
    Program::without_coder().variable("ENGINE", engine).with_command(engine, text)
}

/// There it would fail at every command and still call itself a success.
#[tokio::test]
async fn codex_is_called_without_its_sandbox_where_that_cannot_work() {
    for (tried, word) in [("true", "workspace-write"), ("false", "danger-full-access")] {
        let codex = format!(
            "case $1 in sandbox) {tried}; exit ;; esac; until [ \"$1\" = --sandbox ]; do shift; done; echo \"$2\""
        );
        let squads = Squads::on(with_cli("codex", &codex)).await;
        let done = squads.run_one(member("coder", "hello")).await;
        assert_eq!(done["rawStdout"], format!("{word}\n"), "{done}");
    }
}

/// Otherwise programs of the repository would be started, in every directory of it.
#[tokio::test]
async fn codex_trusts_neither_its_directory_nor_the_root_of_the_repository() {
    let codex = "for word do case $word in projects=*|*writable_roots=*) echo \"$word\" ;; esac; done";
    let squads = Squads::on(with_cli("codex", codex)).await;
    let repository = squads.repository();
    let git = |arguments: &[&str]| {
        let made = std::process::Command::new("git").args(arguments).current_dir(&repository).status();
        assert!(made.unwrap().success());
    };
    git(&["worktree", "add", "-q", "tree"]);
    std::fs::create_dir(repository.join("we\"ird")).unwrap();
    for cwd in ["we\"ird", "tree"] {
        let done = squads.run_one(json!({ "roleId": "coder", "task": "hello", "cwd": cwd })).await;
        let said = done["rawStdout"].as_str().unwrap();
        let settings: toml::Table = toml::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let known: Vec<&String> = settings["projects"].as_table().unwrap().keys().collect();
        let expected = [&repository, &repository.join(cwd)].map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(known, expected.each_ref());
        assert!(settings.contains_key("sandbox_workspace_write"), "{said}");
    }
}

/// By that entry the user's own Codex is a manager's client of the fleet.
#[tokio::test]
async fn codex_does_not_get_the_tools_of_its_users_own_entry_for_the_fleet() {
    let codex = "for word do case $word in mcp_servers.*) echo \"$word\" ;; esac; done";
    for (settings, said) in [
        ("model = \"m\"\n\n[mcp_servers.fleet]\ncommand = \"x\"\n", "mcp_servers.fleet.enabled=false\n"),
        ("[mcp_servers.other]\ncommand = \"x\"\n", ""),
    ] {
        let program = with_cli("codex", codex);
        let home = program.directory.path().join("codex");
        std::fs::create_dir(&home).unwrap();
        std::fs::write(home.join("config.toml"), settings).unwrap();
        let squads = Squads::on(program.variable("CODEX_HOME", home.to_str().unwrap())).await;
        let done = squads.run_one(member("coder", "hello")).await;
        assert_eq!(done["rawStdout"], said, "{done}");
    }
}

#[tokio::test]
async fn claude_code_has_the_same_limits_in_its_environment_as_in_an_agent() {
    let squads = Squads::on(with_cli("claude", "env | grep -E '^(CLAUDE|DISABLE|MCP)_' | sort")).await;
    let done = squads.run_one(member("coder", "hello")).await;
    let expected = "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1\nCLAUDE_CODE_MAX_RETRIES=4\nDISABLE_AUTOUPDATER=1\n\
        MCP_TOOL_TIMEOUT=600000\n";
    assert_eq!(done["rawStdout"], expected, "{done}");
}

#[tokio::test]
async fn cursor_agent_makes_its_chats_and_takes_one_member_at_a_time() {
    let cursor = "case $1 in create-chat) echo chat-7; exit ;; esac; echo \"$@\"; grep '^# '; sleep 0.2";
    let squads = Squads::on(with_cli("cursor-agent", cursor).variable("STATE_MODE", "stateful")).await;
    let run = squads.run(&json!([member("coder", "one")])).await;
    let flags = "-p --trust --force --output-format text --resume chat-7";
    let said = format!("{flags}\n# Role\n# Initial Task\n# Setup & Reporting Rules\n");
    assert_eq!(super::told(&run["members"]), [("completed".to_owned(), said)]);
    assert_eq!(run["members"][0]["chatId"], "chat-7");
    let again = json!({ "roleId": "coder", "task": "two", "chatId": "chat-7" });
    let again = squads.run_one(again).await;
    assert_eq!(again["rawStdout"], format!("{flags}\n# Task\n# Setup & Reporting Rules\n"));
    let pair = squads.run(&json!([member("coder", "three"), member("coder", "four")])).await;
    let [first, second]: [_; 2] = squads.recorded(&pair).await.try_into().unwrap();
    assert!(first.1 <= second.0, "{first:?} {second:?}");
}

#[tokio::test]
async fn a_demo_member_obeys_its_task_alone_and_prints_words() {
    let squads = Squads::on(Program::without_coder()).await;
    let tasks = ["say hello", "Tidy up.\nThen rest.", "fail no way", "ask why?"];
    let run = squads.run(&json!(tasks.map(|task| member("coder", task)))).await;
    let git = std::process::Command::new("git")
        .args(["log", "-1", "--format=%h %s"])
        .current_dir(squads.repository())
        .output();
    let commit = String::from_utf8(git.unwrap().stdout).unwrap();
    assert!(commit.ends_with(" Tidy up.\n"), "{commit}");
    let committed = format!("committed {commit}");
    let streams = |member: &Value| (member["rawStdout"].clone(), member["rawStderr"].clone());
    let said: Vec<_> = run["members"].as_array().unwrap().iter().map(streams).collect();
    let expected = [("hello\n", ""), (committed.as_str(), ""), ("", "no way\n"), ("why?\n", "")];
    assert_eq!(said, expected.map(|(out, err)| (json!(out), json!(err))));
}

/// Agents of `up` become demo agents there; a squad that only pretended to work would mislead its caller.
#[tokio::test]
async fn without_any_cli_a_member_says_what_to_install_or_choose() {
    let bare = "/usr/bin:/bin";
    if std::env::split_paths(bare)
        .any(|folder| folder.join("claude").exists() || folder.join("codex").exists())
    {
        return skipped("a machine without any CLI: one is installed where every program is found");
    }
    let program = Program::without_coder().variable("ENGINE", "auto").variable("PATH", bare);
    let squads = Squads::on(program).await;
    let one = squads.run_one(member("coder", "say hello")).await;
    let reason = "ENGINE_UNAVAILABLE: agent 'runs-here' has no engine: neither claude nor codex is installed in the workspace; install one of them there, set the project's engine, or use --engine demo";
    let here: &Path = &squads.repository();
    assert_eq!((&one["status"], &one["rawStderr"]), (&json!("error"), &json!(reason)));
    assert_eq!(one["cwd"], json!(here));
}

/// Codex counts over its whole thread, also over the runs before.
#[tokio::test]
async fn usage_of_members_is_counted_once_if_their_engine_reports_it() {
    let codex = r#"case $1 in sandbox) exit ;; esac
input=1000 output=5
for word do [ "$word" = resume ] && input=3000 output=10; done
echo '{"type":"thread.started","thread_id":"th-1"}'
echo "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":$input,\"output_tokens\":$output}}""#;
    let squads = Squads::on(with_cli("codex", codex).variable("STATE_MODE", "stateful")).await;
    let first = squads.run_one(member("coder", "begin")).await;
    let spend = async || squads.up.get("/api/v1/status").await["spend_today"].clone();
    assert_eq!(spend().await, json!({ "usd": 0.0, "tokens": 1_005 }), "{first}");
    let second = json!({ "roleId": "coder", "task": "go on", "chatId": first["chatId"] });
    let second = squads.run_one(second).await;
    assert_eq!(spend().await, json!({ "usd": 0.0, "tokens": 3_010 }), "{second}");
    let list = squads.up.get("/api/v1/agents?include_runs=true").await;
    assert_eq!(list["agents"][0]["usage"], json!({ "tokens": 3_010 }), "{list}");
}

/// Its raw output is events.
#[tokio::test]
async fn the_history_has_the_text_of_a_member_of_codex() {
    let codex = r#"case $1 in sandbox) exit ;; esac
echo '{"type":"thread.started","thread_id":"th-1"}'
echo '{"type":"item.completed","item":{"type":"agent_message","text":"Hello is committed."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'"#;
    let squads = Squads::on(with_cli("codex", codex)).await;
    squads.up.agent("one").await;
    let done = squads.run_one(json!({ "roleId": "coder", "task": "hello", "agent_name": "one" })).await;
    let history = squads.up.get("/api/v1/agents/one/history?kind=task").await;
    assert_eq!(history["tasks"][0]["id"], done["memberId"], "{history}");
    assert_eq!(history["tasks"][0]["outcome"], "Hello is committed.", "{history}");
}

#[tokio::test]
async fn the_figures_of_a_member_are_priced_by_the_model_it_was_given() {
    let codex = r#"case $1 in sandbox) exit ;; esac
echo '{"type":"thread.started","thread_id":"th-1"}'
echo '{"type":"turn.completed","usage":{"input_tokens":100000,"output_tokens":10000}}'"#;
    for (model, usd) in [("gpt-5", 0.225), ("a model of tomorrow", 0.0)] {
        let settings = format!("[squads.values]\nmodel = \"{model}\"\n");
        let squads = Squads::on(with_cli("codex", codex).with_settings(&settings)).await;
        let done = squads.run_one(member("coder", "hello")).await;
        let status = squads.up.get("/api/v1/status").await;
        assert_eq!(status["spend_today"], json!({ "usd": usd, "tokens": 110_000 }), "{model}: {done}");
    }
}

#[tokio::test]
async fn members_whose_engine_prints_words_or_figures_that_cannot_be_true_are_counted_as_unknown() {
    let absurd = r#"case $1 in sandbox) exit ;; esac
echo '{"type":"turn.completed","usage":{"input_tokens":9000000000000000000,"output_tokens":1}}'"#;
    for (engine, script) in [("claude", "echo done"), ("codex", absurd)] {
        let squads = Squads::on(with_cli(engine, script)).await;
        squads.run_one(member("coder", "hello")).await;
        let status = squads.up.get("/api/v1/status").await;
        assert_eq!(status["spend_today"], json!({ "usd": 0.0, "tokens": 0, "unknown_runs": 1 }), "{status}");
    }
}
