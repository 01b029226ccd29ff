//! A runner that lives long: its journal and its answers stay bounded, over kills too, and no task runs twice.

use serde_json::{Value, json};

use super::workspace::{Runner, Workspace};

/// Together some four times what is kept in words.
const N_TASKS: usize = 60;
const MAX_JOURNAL: u64 = 9 * 1024 * 1024;

fn body(number: usize) -> Value {
    let filler = "some prose that is only there to be long\n".repeat(6_000);
    json!({ "content": format!("commit {number:02}\n{filler}"), "type": "user", "task_id": format!("task-{number}") })
}

async fn give(runner: &Runner, number: usize) {
    runner.taken(&body(number)).await;
    runner.stable().await;
}

fn journal(workspace: &Workspace) -> u64 {
    std::fs::metadata(workspace.fleet().join("journal.jsonl")).unwrap().len()
}

#[tokio::test]
async fn old_turns_are_forgotten_but_never_run_again() {
    let workspace = Workspace::new();
    let mut runner = workspace.start().await;
    for number in 0..N_TASKS {
        give(&runner, number).await;
        assert!(journal(&workspace) < MAX_JOURNAL, "{}", journal(&workspace));
        // Some kills fall into the time when the journal has just been, or will next be, written anew.
        if number % 7 == 6 {
            runner.kill().await;
            runner = workspace.start().await;
        }
    }
    for number in 0..N_TASKS {
        runner.taken(&body(number)).await;
    }
    runner.stable().await;
    let expected: Vec<String> = (0..N_TASKS).map(|number| format!("{number:02}")).collect();
    assert_eq!(workspace.commits(), expected);
    let state = runner.state().await;
    assert_eq!(state["git"]["ahead"], N_TASKS, "what it started from is not forgotten");
    let n_forgotten = state["forgotten_turns"].as_u64().unwrap() as usize;
    let n_kept = state["turns"].as_array().unwrap().len();
    assert_eq!((n_forgotten > 0, n_forgotten + n_kept), (true, N_TASKS));
    let newest = state["turns"].as_array().unwrap().last().unwrap();
    assert_eq!((&newest["message_id"], &newest["task_id"]), (&json!(2 * (N_TASKS - 1)), &json!("task-59")));
    let forgotten = runner.get("/fleet/state?task=task-0").await["task"].clone();
    assert_eq!(forgotten, json!({ "task_id": "task-0", "state": "forgotten" }));
    let messages = runner.get("/messages").await;
    let first = messages["messages"][0]["id"].as_u64().unwrap() as usize;
    assert_eq!(first, 2 * n_forgotten);
}
