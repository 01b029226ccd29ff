//! Kill -9 of the whole program at the steps of a build, several times in a row: what was accepted is done.

use serde_json::json;

use super::creation;
use crate::harness::{Program, Up, eventually, moments, processes_under, runners_under};

const POINTS_OF_CREATE: [&str; 4] =
    ["Creating the directory", "Preparing the repository", "agent.spawned", "build.concluding"];
const POINTS_OF_STOP: [&str; 2] = ["Ending processes", "build.concluding"];
const POINTS_OF_DELETE: [&str; 3] = ["Ending processes", "place.removed", "build.concluding"];

/// Asks a server for something that kills it at this point, and lets the two after it die there too.
async fn killed_at(program: &Program, point: &str, arguments: &[&str]) {
    let doomed = program.clone().variable("FLEET_KILL_POINT", point);
    let up = Up::start(&doomed).await;
    // Its answer may be lost with the server.
    program.run(arguments).await;
    up.died().await;
    for _ in 0..2 {
        // It may die before it serves.
        let mut child = tokio::process::Command::from(doomed.command(&["up", "--port", "0"]))
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("the server did not die at {point}")).unwrap();
        assert_eq!(status.code(), None, "{point}: killed, not ended");
    }
}

/// A server that lives, once nothing is under way; no operation may have failed on the way there.
async fn settled(program: &Program) -> Up {
    let up = Up::start(program).await;
    eventually("no operation is under way", async || {
        let report = program.run(&["--json", "doctor"]).await;
        String::from_utf8_lossy(&report.stdout).contains("0 in progress")
    })
    .await;
    assert!(!program.log().contains("an operation failed"), "{}", program.log());
    up
}

async fn with_agent() -> Program {
    let program = Program::without_coder();
    let up = Up::start(&program).await;
    up.agent("one").await;
    up.killed().await
}

#[tokio::test]
async fn a_create_whose_build_was_killed_again_and_again_is_done_and_its_spec_too() {
    for point in moments(&POINTS_OF_CREATE) {
        let program = Program::without_coder();
        killed_at(&program, point, &creation("say hello", "one")).await;
        let up = settled(&program).await;
        up.provisioned("one").await;
        eventually("the spec is done", async || up.show("one").await["last_task"]["state"] == "done").await;
        eventually("only the runner is left", async || processes_under(program.directory.path()).len() == 1)
            .await;
    }
}

#[tokio::test]
async fn a_stop_and_a_restart_whose_builds_were_killed_again_and_again_are_done() {
    for point in moments(&POINTS_OF_STOP) {
        let program = with_agent().await;
        killed_at(&program, point, &["agents", "restart", "one"]).await;
        let up = settled(&program).await;
        up.provisioned("one").await;
        assert_eq!(runners_under(program.directory.path()).len(), 1, "{point}");
        up.killed().await;
        killed_at(&program, point, &["agents", "stop", "one"]).await;
        let up = settled(&program).await;
        assert_eq!(up.show("one").await["status"], "stopped", "{point}");
        assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new(), "{point}");
    }
}

#[tokio::test]
async fn a_delete_whose_build_was_killed_again_and_again_is_done_and_leaves_nothing() {
    for point in moments(&POINTS_OF_DELETE) {
        let program = with_agent().await;
        killed_at(&program, point, &["agents", "delete", "one", "--discard-work", "-y"]).await;
        let up = settled(&program).await;
        let listed = up.get("/api/v1/agents").await;
        let left: Vec<_> = std::fs::read_dir(program.data_dir().join("workspaces"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!((&listed["total_count"], left), (&json!(0), Vec::new()), "{point}");
        assert_eq!(processes_under(program.directory.path()), Vec::<u32>::new(), "{point}");
    }
}
