//! Kill -9 of a server, of the runner in its workspace and of both, with tasks running: none is lost, none runs
//! twice, and Ctrl-C leaves no process behind.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::{Program, Up, eventually, kill, processes_under, rounds, runners_under, taken_in};

const AGENT: &str = "one";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Server,
    Runner,
    Both,
}

fn victim_of(round: u64) -> Victim {
    [Victim::Server, Victim::Runner, Victim::Both][usize::try_from(round % 3).unwrap()]
}

/// What is killed is dead when this returns; the server that is given back serves.
async fn strike(up: Up, victim: Victim) -> Up {
    let program = up.program.clone();
    let is_runner_hit = victim != Victim::Server;
    let spared = match victim {
        Victim::Runner => Some(up),
        Victim::Server | Victim::Both => {
            up.killed().await;
            None
        }
    };
    if is_runner_hit {
        let runners = || runners_under(program.directory.path());
        let victims = runners();
        victims.iter().copied().for_each(kill);
        eventually("the runner is gone", async || !runners().iter().any(|pid| victims.contains(pid))).await;
    }
    let up = match spared {
        Some(up) => up,
        None => Up::start(&program).await,
    };
    if is_runner_hit {
        up.change(AGENT, "restart").await;
    }
    up
}

/// Every task with its state.
async fn states(up: &Up) -> Vec<(String, String)> {
    let path = format!("/api/v1/agents/{AGENT}/history?kind=task&page_size=100");
    let history = up.get(&path).await;
    let rows = history["tasks"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    rows.map(|row| (text(&row["message"]), text(&row["state"]))).collect()
}

fn commits(up: &Up) -> Vec<String> {
    let mut git = std::process::Command::new("git");
    git.arg("-C").arg(up.workspace(AGENT).join("repo")).args(["log", "--format=%s"]);
    let output = git.output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn kills_of_server_and_runner_lose_no_task_repeat_none_and_leave_no_process() {
    let program = Program::without_coder();
    let mut up = Up::start(&program).await;
    up.agent(AGENT).await;
    let n_rounds = rounds(12_u64, 3);
    for round in 0..n_rounds {
        let task = json!({ "task_description": format!("commit {round:02}"), "when_busy": "queue" });
        up.post(&format!("/api/v1/agents/{AGENT}/tasks"), &task).await;
        // Not a wait for something: the moment of the kill is what varies.
        tokio::time::sleep(Duration::from_millis(round * 37 % 250)).await;
        up = strike(up, victim_of(round)).await;
    }
    let names: Vec<String> = (0..n_rounds).map(|round| format!("commit {round:02}")).collect();
    let mut told = Vec::new();
    eventually("every task has ended", async || {
        told = states(&up).await;
        told.iter().all(|(_, state)| ["done", "failed", "canceled"].contains(&state.as_str()))
    })
    .await;
    let mut taken = taken_in(&up.workspace(AGENT).join("fleet/journal.jsonl"));
    taken.retain(|message| message.starts_with("commit"));
    assert_eq!(taken, names, "each was taken once, in the order it was given");
    let commits = commits(&up);
    for name in &names {
        let (_, state) = told.iter().find(|(message, _)| message == name).expect("no task is lost");
        let n_commits = commits.iter().filter(|commit| name.ends_with(commit.as_str())).count();
        assert!(n_commits <= 1 && (state != "done" || n_commits == 1), "{name}: {state}, {commits:?}");
    }
    let pid = Pid::from_raw(up.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert!(up.child.wait().await.unwrap().success());
    assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new());
}
