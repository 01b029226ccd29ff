//! What a run leaves for Coder to show: branch, git and usage, each in a file of its own.

use serde_json::{Value, json};

use super::workspace::Workspace;
use crate::harness::{eventually, script};

#[tokio::test]
async fn a_commit_shows_in_the_metadata_and_in_the_state() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.ask("commit one").await;
    runner.ask("commit two").await;
    std::fs::write(workspace.repo().join("notes.txt"), "not committed").unwrap();
    runner.ask("say done").await;
    let head = workspace.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let git = json!({ "ahead": 2, "behind": 0, "dirty": true, "unpushed": 2, "head": head });
    assert_eq!(serde_json::from_str::<Value>(&workspace.metadata("fleet_mcp_git")).unwrap(), git);
    assert_eq!(workspace.metadata("fleet_mcp_branch"), "main");
    let usage: Value = serde_json::from_str(&workspace.metadata("fleet_mcp_usage")).unwrap();
    assert_eq!((&usage["input_tokens"], &usage["cost_usd"]), (&json!(8), &json!(0.0)));
    let state = runner.state().await;
    let whole =
        ["workspace", "engine", "generation", "status", "branch", "git", "usage"].map(|key| &state[key]);
    let expected = [&json!("ann"), &json!("demo"), &json!(7), &json!("stable"), &json!("main"), &git, &usage];
    assert_eq!(whole, expected);
}

#[tokio::test]
async fn usage_of_a_turn_is_published_while_it_runs() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.say("say words\nsleep 600").await;
    let used = || serde_json::from_str::<Value>(&workspace.metadata("fleet_mcp_usage")).unwrap();
    eventually("its first figures are published", async || used()["input_tokens"] == 5).await;
    assert_eq!(runner.get("/status").await["status"], "running");
    runner.escape().await;
    runner.stable().await;
    assert_eq!(used(), runner.state().await["usage"]);
}

#[tokio::test]
async fn commits_are_counted_from_what_the_repository_held_before_the_first_turn() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    // A startup script may still bring the repository up to date.
    workspace.git(&["commit", "--quiet", "--allow-empty", "--message=More"]);
    runner.ask("commit one").await;
    runner.kill().await;
    let runner = workspace.start().await;
    runner.ask("commit two").await;
    let git: Value = serde_json::from_str(&workspace.metadata("fleet_mcp_git")).unwrap();
    assert_eq!(["ahead", "behind", "unpushed"].map(|key| git[key].clone()), [2, 0, 2].map(Value::from));
}

#[tokio::test]
async fn a_branch_that_follows_another_is_counted_against_it() {
    let workspace = Workspace::new();
    let remote = workspace.repo().with_file_name("remote.git");
    let path = remote.to_str().unwrap();
    workspace.git(&["init", "--quiet", "--bare", path]);
    workspace.git(&["remote", "add", "origin", path]);
    workspace.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    let runner = workspace.start().await;
    runner.ask("commit one").await;
    let git: Value = serde_json::from_str(&workspace.metadata("fleet_mcp_git")).unwrap();
    let counts = ["ahead", "behind", "dirty", "unpushed"].map(|key| git[key].clone());
    assert_eq!(counts, [json!(1), json!(0), json!(false), json!(1)]);
}

#[tokio::test]
async fn looking_at_the_repository_starts_nothing_it_brings_along() {
    let workspace = Workspace::new();
    let trap = workspace.repo().with_file_name("trap");
    let sprung = workspace.repo().with_file_name("sprung");
    let text = format!("#!/bin/sh\ntouch '{}'\n", sprung.display());
    script(&trap, &text);
    let trap = trap.to_str().unwrap();
    workspace.git(&["config", "diff.external", trap]);
    std::fs::create_dir_all(workspace.repo().join("hooks")).unwrap();
    script(&workspace.repo().join("hooks/post-index-change"), &text);
    workspace.git(&["config", "core.hooksPath", "hooks"]);
    workspace.git(&["config", "core.fsmonitor", trap]);
    let runner = workspace.start().await;
    runner.ask("commit one").await;
    assert!(!sprung.exists());
}
