//! A worker or a reconciler that panics: it runs again in the same process, and the others go on.

use super::creation;
use crate::harness::{Pace, Program, eventually, stub};

#[tokio::test]
async fn an_operation_whose_worker_panics_ends_all_the_same() {
    let coder = stub(Pace::Held).await;
    let program = Program::on(&coder);
    let first = program.serve().await;
    program.json(&creation("x", "one")).await;
    eventually("the first build is held", async || coder.workspaces().len() == 1).await;
    assert_eq!(first.terminate().await, Some(0));

    let server = program.clone().variable("FLEET_PANIC_POINT", "send.recorded").serve().await;
    program.json(&creation("x", "two")).await;
    // The worker of the first create lives on meanwhile: its build is held.
    eventually("the second create is sent", async || coder.workspaces().len() == 2).await;
    coder.set_pace(Pace::PerRead);
    eventually("both agents are idle", async || {
        let list = program.json(&["--json", "agents", "list"]).await;
        list["agents"].as_array().unwrap().iter().all(|agent| agent["status"] == "idle")
    })
    .await;

    let builds: Vec<_> = coder.workspaces().iter().map(|workspace| workspace.builds).collect();
    assert_eq!(builds, [1, 1], "no create was sent twice");
    assert_eq!(program.log().matches("a worker panicked; it is restarted").count(), 1, "{}", program.log());
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn a_reconciler_that_panics_runs_again_and_its_workers_with_it() {
    for point in ["poll.listed", "operations.read"] {
        let coder = stub(Pace::PerRead).await;
        let program = Program::on(&coder).variable("FLEET_PANIC_POINT", point);
        let server = program.serve().await;
        program.json(&creation("x", "one")).await;
        eventually("the agent is idle", async || {
            program.json(&["--json", "agents", "list"]).await["agents"][0]["status"] == "idle"
        })
        .await;
        let n_panics = program.log().matches("a reconciler panicked; it is restarted").count();
        assert_eq!(n_panics, 1, "{point}: {}", program.log());
        assert_eq!(server.terminate().await, Some(0));
    }
}
