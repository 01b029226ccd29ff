//! Escape ends what runs, however it resists, and leaves no process of it behind.

use serde_json::json;

use super::workspace::Workspace;
use crate::harness::{TENTH, eventually, script};

fn interrupted() -> serde_json::Value {
    json!({ "outcome": "interrupted", "by": "request" })
}

#[tokio::test]
async fn an_interrupt_ends_every_kind_of_run_with_all_its_processes() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    for (message, n_processes) in [("sleep 600", 1), ("hang", 1), ("fork\nhang", 2), ("fork\nsleep 600", 2)] {
        runner.say(message).await;
        eventually("it runs", async || workspace.processes_of_runs().len() == n_processes).await;
        runner.escape().await;
        runner.stable().await;
        assert_eq!(runner.outcomes().await.pop().unwrap().1, interrupted(), "{message}");
        assert_eq!(workspace.processes_of_runs(), Vec::<u32>::new(), "{message}");
    }
}

/// A process that ends at INT never gets TERM; a process that ignores both is killed.
#[tokio::test]
async fn interrupt_sends_int_then_term_then_kill() {
    let script = "read -r end\ntrap \"echo int >>../trace; $end\" INT\ntrap 'echo term >>../trace' TERM\n\
        echo ready >>../trace\nwhile :; do sleep 0.01; done\n";
    let workspace = Workspace::new().script(script, "").variable("FLEET_BRIEFING_MS", "1");
    // Time enough for a shell on a busy machine to write down what it got.
    let workspace = workspace.variable("FLEET_INTERRUPT_MS", "2000").variable("FLEET_TERMINATE_MS", "2000");
    let trace = || std::fs::read_to_string(workspace.repo().with_file_name("trace")).unwrap_or_default();
    let runner = workspace.start().await;
    for (message, expected) in [(":", "ready\nint\nterm\n"), ("exit", "ready\nint\nterm\nready\nint\n")] {
        let before = trace();
        runner.say(message).await;
        eventually("it runs", async || trace() == format!("{before}ready\n")).await;
        runner.escape().await;
        runner.stable().await;
        assert_eq!(runner.outcomes().await.pop().unwrap().1, interrupted());
        assert_eq!(trace(), expected);
        assert_eq!(workspace.processes_of_runs(), Vec::<u32>::new());
    }
}

#[tokio::test]
async fn an_interrupt_that_names_a_task_spares_every_other() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.task("first", "sleep 600").await;
    runner.task("second", "say done").await;
    let escape = |task_id: &str| json!({ "content": "\u{1b}", "type": "raw", "task_id": task_id });
    runner.taken(&escape("second")).await;
    runner.taken(&escape("unknown")).await;
    assert_eq!(runner.state().await["turns"][0]["state"], "working");
    runner.taken(&escape("first")).await;
    runner.stable().await;
    let done = json!({ "outcome": "complete", "text": "done" });
    assert_eq!(runner.outcomes().await, [(json!("first"), interrupted()), (json!("second"), done)]);
}

/// An ended run is shown as working until its repository was read; an interrupt in that time is too late and affects no
/// other run.
#[tokio::test]
async fn an_interrupt_that_comes_too_late_spares_the_next_one() {
    let engine = "read -r word\nif [ \"$word\" = first ]; then\n\
        until [ -e ../go ]; do sleep 0.01; done\ntouch ../gate\nfi\necho \"$word\"\n";
    let workspace = Workspace::new().script(engine, "").variable("FLEET_BRIEFING_MS", "1");
    let beside = |name: &str| workspace.repo().with_file_name(name);
    let slow = "#!/bin/sh\nif [ -e ../gate ]; then touch ../looking; fi\n\
        while [ -e ../gate ]; do sleep 0.01; done\nPATH=${PATH#*:} exec git \"$@\"\n";
    std::fs::create_dir(beside("bin")).unwrap();
    script(&beside("bin/git"), slow);
    let path = format!("{}:{}", beside("bin").display(), std::env::var("PATH").unwrap());
    let mut command = workspace.command(&["agent"]);
    command.env("PATH", path);
    let runner = workspace.started(command).await;
    runner.task("one", "first").await;
    runner.task("two", "second").await;
    std::fs::write(beside("go"), "").unwrap();
    eventually("the first is looked at", async || beside("looking").exists()).await;
    assert_eq!(runner.state().await["turns"][0]["state"], "working");
    runner.escape().await;
    std::fs::remove_file(beside("gate")).unwrap();
    runner.stable().await;
    let done = |text: &str| json!({ "outcome": "complete", "text": text });
    assert_eq!(runner.outcomes().await, [(json!("one"), done("first")), (json!("two"), done("second"))]);
}

/// A stop of the workspace kills remaining processes a few seconds later: by then the end of the run is recorded.
#[tokio::test]
async fn a_stop_hurries_an_engine_that_resists() {
    let workspace = Workspace::new();
    let workspace =
        workspace.variable("FLEET_INTERRUPT_MS", "600000").variable("FLEET_TERMINATE_MS", "600000");
    let workspace = workspace.variable(TENTH.0, TENTH.1);
    let runner = workspace.start().await;
    runner.say("fork\nhang").await;
    eventually("it runs", async || workspace.processes_of_runs().len() == 2).await;
    assert_eq!(runner.terminate().await, Some(0));
    assert_eq!(workspace.processes_of_runs(), Vec::<u32>::new());
    let runner = workspace.start().await;
    let parked = json!({ "outcome": "interrupted", "by": "park" });
    assert_eq!(runner.outcomes().await, [(json!(null), parked)]);
}
