//! A clean stop of the server: what runs is parked, and the next start goes on with it in the engine's session.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually, taken_in};

impl Up {
    /// Ends as SIGTERM has it, and says with which code.
    async fn terminated(mut self) -> (Program, Option<i32>) {
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let code = self.child.wait().await.unwrap().code();
        (self.program.clone(), code)
    }

    async fn start_task(&self, text: &str, when_busy: &str) -> Value {
        let body = json!({ "task_description": text, "when_busy": when_busy });
        self.post("/api/v1/agents/one/tasks", &body).await
    }

    /// Texts, states and outcomes, oldest first.
    async fn tasks(&self) -> Vec<(String, String, String)> {
        let page = self.get("/api/v1/agents/one/history?kind=task&page_size=100").await;
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let row = |row: &Value| (text(row, "message"), text(row, "state"), text(row, "outcome"));
        page["tasks"].as_array().unwrap().iter().rev().map(row).collect()
    }
}

fn row(text: &str, state: &str, outcome: &str) -> (String, String, String) {
    (text.to_owned(), state.to_owned(), outcome.to_owned())
}

#[tokio::test]
async fn a_clean_stop_of_the_server_parks_the_running_task_and_the_next_start_goes_on_with_it() {
    let program = Program::without_coder().variable("ENGINE", "demo");
    let up = Up::start_here(&program).await;
    up.agent("one").await;
    let long = "say first half\nsleep 10\nsay second half";
    up.start_task(long, "reject").await;
    up.start_task("say later", "queue").await;
    eventually("half of it is said", async || {
        let log = up.get("/api/v1/agents/one/log?page_size=100").await;
        let said = |row: &Value| {
            row["type"] == "output"
                && row["content"].as_str().is_some_and(|text| text.starts_with("first half"))
        };
        log["logs"].as_array().unwrap().iter().any(said)
    })
    .await;
    let (program, code) = up.terminated().await;
    assert_eq!(code, Some(0));
    let up = Up::start(&program).await;
    eventually("all is done", async || up.tasks().await.iter().all(|(_, state, _)| state == "done")).await;
    let done = up.tasks().await;
    assert_eq!(done[1..], [row(long, "done", "second half"), row("say later", "done", "later")]);
    let taken = taken_in(&up.workspace("one").join("fleet/journal.jsonl"));
    assert!(taken[2].starts_with("You were interrupted by a restart"), "{taken:?}");
    assert_eq!([&taken[1..2], &taken[3..]].concat(), [long, "say later"], "nothing ran twice");
}
