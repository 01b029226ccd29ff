//! Messages are taken once, run once, in order, over kills and restarts.

use std::time::Duration;

use serde_json::{Value, json};

use super::workspace::{Runner, Workspace};
use crate::harness::eventually;

const N_TASKS: usize = 20;

fn name(number: usize) -> String {
    format!("task-{number:02}")
}

fn names() -> Vec<String> {
    (0..N_TASKS).map(name).collect()
}

#[tokio::test]
async fn twenty_tasks_run_in_order_and_each_once() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    for name in names() {
        runner.task(&name, &format!("commit {name}")).await;
        runner.task(&name, "commit the same task again").await;
    }
    runner.stable().await;
    assert_eq!(workspace.commits(), names());
    let messages = runner.get("/messages").await;
    let messages = messages["messages"].as_array().unwrap();
    let asked: Vec<_> = messages.iter().filter(|message| message["role"] == "user").collect();
    let expected: Vec<Value> = names().iter().map(|name| json!(format!("commit {name}"))).collect();
    assert_eq!(asked.iter().map(|message| message["content"].clone()).collect::<Vec<_>>(), expected);
    let numbers: Vec<usize> =
        messages.iter().map(|message| message["id"].as_u64().unwrap() as usize).collect();
    assert_eq!(numbers, (0..2 * N_TASKS).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_run_cut_short_by_a_kill_is_recorded_and_the_rest_goes_on() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.task("first", "commit first\nfork\nsleep 600\ncommit never").await;
    runner.task("second", "commit second").await;
    eventually("the first commit is there", async || workspace.commits() == ["first"]).await;
    // Git is a process of the run too, but one that ends by itself.
    let lingers = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"--linger")
    };
    let is_left = || workspace.processes_of_runs().iter().any(lingers);
    eventually("a process is left", async || is_left()).await;
    runner.kill().await;
    assert!(is_left());
    let runner = workspace.start().await;
    runner.stable().await;
    let head = workspace.git(&["rev-parse", "--short", "HEAD"]);
    let second = json!({ "outcome": "complete", "text": format!("committed {} second", head.trim()) });
    assert_eq!(
        runner.outcomes().await,
        [(json!("first"), json!({ "outcome": "interrupted", "by": "crash" })), (json!("second"), second),]
    );
    assert_eq!(workspace.commits(), ["first", "second"]);
    assert_eq!(workspace.processes_of_runs(), Vec::<u32>::new());
}

/// Each round kills the runner a little later after a task was sent to it; a client without a response retries.
#[tokio::test]
async fn kills_while_messages_arrive_lose_none_and_run_none_twice() {
    // Time enough for git to clean up after itself, also on a busy machine.
    let workspace = Workspace::new().variable("FLEET_TERMINATE_MS", "20000");
    let mut runner = workspace.start().await;
    for (number, name) in names().iter().enumerate() {
        let body = json!({ "content": format!("commit {name}"), "type": "user", "task_id": name });
        if number % 3 == 1 {
            let killing = kill_after(&runner, Duration::from_micros(500 * number as u64));
            let (answered, ()) = tokio::join!(runner.try_post(&body), killing);
            runner.kill().await;
            runner = workspace.start().await;
            let is_known = runner.outcomes().await.iter().any(|(task, _)| task == name);
            assert!(is_known || answered.is_err(), "{name} was promised and is lost");
        }
        runner.taken(&body).await;
    }
    runner.stable().await;
    let outcomes = runner.outcomes().await;
    assert_eq!(outcomes.iter().map(|(task, _)| task.as_str().unwrap()).collect::<Vec<_>>(), names());
    let commits = workspace.commits();
    for (task, outcome) in &outcomes {
        let n_commits = commits.iter().filter(|commit| *task == json!(commit)).count();
        match outcome["outcome"].as_str().unwrap() {
            "complete" => assert_eq!(n_commits, 1, "{task}"),
            "interrupted" => assert!(n_commits <= 1, "{task}"),
            other => panic!("{task}: {other}: {outcome}: {outcomes:?}"),
        }
    }
}

/// A blind sweep has no event to wait for: the point is to hit different moments.
async fn kill_after(runner: &Runner, time: Duration) {
    tokio::time::sleep(time).await;
    let pid = rustix::process::Pid::from_raw(runner.child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_message_that_cannot_be_kept_is_refused_and_leaves_nothing() {
    let workspace = Workspace::new();
    let runner = workspace.start_with_small_files().await;
    let body = json!({ "content": "x".repeat(200_000), "type": "user", "task_id": "big" });
    let refused = runner.post(&body).await;
    let said = json!([{ "message": "failed to send message: the message cannot be stored" }]);
    assert_eq!((refused.status, &refused.body["errors"]), (500, &said));
    assert_eq!(runner.ask("say small").await.0, json!({ "outcome": "complete", "text": "small" }));
    let kept = runner.outcomes().await;
    runner.kill().await;
    assert_eq!(workspace.start().await.outcomes().await, kept);
}

#[tokio::test]
async fn the_prompt_is_the_first_message_once_in_a_workspaces_life() {
    let workspace = Workspace::new().prompt("commit from the prompt");
    let runner = workspace.start().await;
    runner.stable().await;
    runner.ask("say hello").await;
    assert_eq!(runner.terminate().await, Some(0));
    let runner = workspace.start().await;
    runner.stable().await;
    let state = runner.state().await;
    let turns = state["turns"].as_array().unwrap().iter();
    let turns: Vec<_> =
        turns.map(|turn| (turn["source"].clone(), turn["outcome"]["outcome"].clone())).collect();
    let expected = [(json!("prompt"), json!("complete")), (json!("user"), json!("complete"))];
    assert_eq!(turns, expected);
    assert_eq!(workspace.commits(), ["from the prompt"]);
}

#[tokio::test]
async fn a_stop_parks_the_run_keeps_the_queue_and_exits_cleanly() {
    let workspace = Workspace::new();
    let runner = workspace.start().await;
    runner.task("first", "fork\nhang").await;
    runner.task("second", "say later").await;
    eventually("the run is under way", async || workspace.processes_of_runs().len() == 2).await;
    assert_eq!(runner.terminate().await, Some(0));
    assert_eq!(workspace.processes_of_runs(), Vec::<u32>::new());
    let runner = workspace.start().await;
    runner.stable().await;
    assert_eq!(
        runner.outcomes().await,
        [
            (json!("first"), json!({ "outcome": "interrupted", "by": "park" })),
            (json!("second"), json!({ "outcome": "complete", "text": "later" })),
        ]
    );
}
