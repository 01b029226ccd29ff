//! Kill -9 at every point of a task by exec: it is done once, and what it did is verified.

use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

const POINTS: [&str; 11] = [
    "task.accepted",
    "task.recorded",
    "task.answered",
    "run.accepted",
    "run.sent",
    "run.started",
    "run.counted",
    "task.taking",
    "task.taken",
    "task.ending",
    "task.ended",
];

fn program() -> Program {
    let program = Program::without_coder();
    let projects = program.data_dir().join("projects");
    std::fs::create_dir_all(&projects).unwrap();
    let file = "name = \"setup\"\ntemplate = \"setup\"\napp_slug = \"none\"\nengine = \"demo\"\n";
    std::fs::write(projects.join("setup.toml"), file).unwrap();
    program
}

fn git(up: &Up, arguments: &[&str]) -> String {
    let repository = up.workspace("one").join("repo");
    let told = std::process::Command::new("git").arg("-C").arg(repository).args(arguments).output().unwrap();
    String::from_utf8(told.stdout).unwrap().trim().to_owned()
}

async fn last_task(up: &Up, text: &str) -> Value {
    eventually("the task has ended", async || {
        let shown = up.show("one").await;
        shown["status"] == "idle" && shown["last_task"]["message"] == text
    })
    .await;
    up.show("one").await["last_task"].clone()
}

#[tokio::test]
async fn a_task_by_exec_is_done_once_and_verified_from_every_point() {
    let program = program();
    let mut up = Up::start(&program).await;
    up.agent("one").await;
    for point in POINTS {
        let doomed = Up::start(&up.killed().await.variable("FLEET_KILL_POINT", point)).await;
        eventually("the agent rests", async || doomed.show("one").await["status"] == "idle").await;
        // It takes a moment, so that it is seen at work before it is seen to have ended.
        let text = format!("sleep 3\ncommit {point}");
        let task = json!({ "task_description": text });
        let path = "/api/v1/agents/one/tasks";
        doomed.call_or_nothing(&doomed.operator_token(), path, &task).await;
        up = Up::start(&doomed.died().await.variable("FLEET_KILL_POINT", "")).await;
        let task = last_task(&up, &text).await;
        let commit = git(&up, &["rev-parse", "HEAD"]);
        let seen = json!({ "commit": commit, "new_commit": true, "pushed": false, "clean": true });
        assert_eq!((&task["state"], &task["verified"]), (&json!("done"), &seen), "{point}");
        let subjects = git(&up, &["log", "--format=%s"]);
        assert_eq!(subjects.lines().filter(|line| *line == point).count(), 1, "{point}");
        let history = up.get_as(&up.operator_token(), "/api/v1/agents/one/history?kind=task").await;
        assert_eq!(history.body["tasks"][0]["message"], text.as_str(), "{point}");
    }
}
