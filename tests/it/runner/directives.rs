//! The demo engine's directives, each obeyed by a real process in a real repository.

use serde_json::{Value, json};

use super::workspace::{Runner, Workspace};
use crate::harness::{eventually, script};

fn complete(text: &str) -> Value {
    json!({ "outcome": "complete", "text": text })
}

fn failed(kind: &str, text: &str) -> Value {
    json!({ "outcome": "failed", "kind": kind, "text": text })
}

#[tokio::test]
async fn every_directive_does_what_it_says() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    let refused = |what: &str| failed("engine_error", &format!("{what} is not available to this role"));
    let cases = [
        ("sleep 0", complete("slept")),
        ("say one\nsay two", complete("two")),
        ("fail", failed("engine_error", "failed as asked")),
        ("say before\nfail it broke\nsay never", failed("engine_error", "it broke")),
        ("ask", json!({ "outcome": "question", "text": "How shall I go on?" })),
        ("ask which one?", json!({ "outcome": "question", "text": "which one?" })),
        ("say which one?", json!({ "outcome": "question", "text": "which one?" })),
        ("exit 0", complete("")),
        ("exit 3", failed("crashed", "the engine ended with exit status: 3")),
        ("print 2KB", complete("printed 2000 bytes")),
        ("feedback needs_work Fix it", refused("feedback (needs_work)")),
        ("approve A title", refused("approve")),
    ];
    for (message, outcome) in cases {
        assert_eq!(runner.ask(message).await.0, outcome, "{message}");
    }
    assert_eq!(workspace.commits(), Vec::<String>::new());
}

#[tokio::test]
async fn prose_alone_and_commit_each_make_one_commit_of_a_real_file() {
    let workspace = Workspace::new();
    // Neither a hook nor a missing identity gets in the way.
    let hook = workspace.repo().join(".git/hooks/pre-commit");
    script(&hook, "#!/bin/sh\nexit 1\n");
    let runner = workspace.start().await;
    let (outcome, _) = runner.ask("# Objective\n\nMake it work.\n").await;
    let head = workspace.git(&["rev-parse", "--short", "HEAD"]);
    assert_eq!(outcome, complete(&format!("committed {} # Objective", head.trim())));
    runner.ask("Please:\ncommit Add the thing\nThanks.").await;
    runner.ask("commit").await;
    assert_eq!(workspace.commits(), ["# Objective", "Add the thing", "Demo work"]);
    let changed = workspace.git(&["show", "--name-only", "--format=", "HEAD~2"]);
    let written = std::fs::read_to_string(workspace.repo().join(changed.trim())).unwrap();
    assert_eq!(written, "# Objective\n\nMake it work.\n");
    assert_eq!(workspace.git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_reviewer_waits_until_it_is_told_something() {
    let workspace = Workspace::new();
    std::fs::create_dir_all(workspace.fleet().join("metadata")).unwrap();
    workspace.leave("metadata/fleet_mcp_role", "reviewer\n");
    let runner = workspace.start().await;
    runner.say("Please review this branch.").await;
    let waiting = "waiting to be told what to do";
    eventually("it waits", async || runner.get("/messages").await["messages"][1]["content"] == waiting).await;
    runner.escape().await;
    runner.stable().await;
    assert_eq!(workspace.commits(), Vec::<String>::new());
    assert_eq!(runner.ask("say reviewed").await.0, complete("reviewed"));
}

#[tokio::test]
async fn without_a_repository_prose_completes_and_says_so() {
    let workspace = Workspace::new();
    std::fs::remove_dir_all(workspace.repo().join(".git")).unwrap();
    let runner = workspace.start().await;
    let text = "there is no git repository here, so nothing was committed";
    assert_eq!(runner.ask("Do it.").await.0, complete(text));
}

#[tokio::test]
async fn a_process_left_behind_does_not_outlive_its_run() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    let (outcome, said) = runner.ask("fork").await;
    assert_eq!(outcome["outcome"], "complete");
    assert!(said.starts_with("left process "), "{said}");
    assert_eq!(workspace.processes_of_runs(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_flood_of_output_leaves_memory_flat_and_its_end_readable() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.ask("print 1MB").await;
    let before = peak_kilobytes(&runner);
    let (outcome, said) = runner.ask("print 100MB").await;
    assert_eq!(outcome, complete("printed 100000000 bytes"));
    assert!(said.starts_with("[99934"), "{}", &said[..60]);
    assert!(said.ends_with("asked for output.\nprinted 100000000 bytes"), "{}", &said[said.len() - 60..]);
    assert!(said.len() < 70_000);
    let grown = peak_kilobytes(&runner) - before;
    assert!(grown < 16_000, "the runner grew by {grown} kB");
}

fn peak_kilobytes(runner: &Runner) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", runner.child.id().unwrap())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}
