//! Kill -9 at every named point of each operation: the next server converges, nothing is done twice.

/// Says something in both builds: what is looked for is found where it must be.
#[test]
fn only_a_build_with_test_hooks_has_kill_points() {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_fleet-mcp")).unwrap();
    for marker in ["FLEET_KILL_POINT", "FLEET_LIMITS_DIVISOR"] {
        let is_there = binary.windows(marker.len()).any(|window| window == marker.as_bytes());
        assert_eq!(is_there, cfg!(feature = "test-hooks"), "{marker}");
    }
}

#[cfg(feature = "test-hooks")]
mod with_hooks {
    use crate::harness::{
        CoderStub, Pace, Program, ServerProcess, TENTH, Up, eventually, runners_under, stub,
    };
    use crate::process::{creation, creation_awaited};

    #[tokio::test]
    async fn the_runners_of_a_server_divide_their_limits_as_it_does() {
        let up = Up::start(&Program::without_coder().hurried()).await;
        up.agent("one").await;
        let runner = runners_under(up.program.directory.path())[0];
        let environment = std::fs::read(format!("/proc/{runner}/environ")).unwrap();
        let expected = format!("{}={}", TENTH.0, TENTH.1);
        assert!(environment.split(|byte| *byte == 0).any(|variable| variable == expected.as_bytes()));
    }

    const POINTS_OF_CREATE: [&str; 7] = [
        "create.accepted",
        "send.recorded",
        "create.answered",
        "create.owned",
        "send.answered",
        "end.reached",
        "end.recording",
    ];
    const POINTS_OF_CHANGE: [&str; 5] =
        ["change.accepted", "send.recorded", "send.answered", "end.reached", "end.recording"];
    const POINTS_OF_DELETE: [&str; 5] =
        ["delete.accepted", "send.recorded", "send.answered", "end.reached", "end.recording"];

    const POINTS_OF_CANCEL: [&str; 4] = ["cancel.accepted", "cancel.asked", "end.reached", "end.recording"];
    const POINTS_OF_TAKING_BACK: [&str; 6] = [
        "delete.begun",
        "cancel.accepted",
        "cancel.asked",
        "send.recorded",
        "send.answered",
        "end.recording",
    ];

    /// Runs a command on a server that dies at the point, then on one that does not; waits until all is settled.
    async fn killed_at(point: &str, program: &Program, arguments: &[&str]) {
        let mut doomed = program.clone().variable("FLEET_KILL_POINT", point).serve().await;
        program.run(arguments).await;
        dead(point, program, &mut doomed).await;
        let server = program.serve().await;
        settled(program).await;
        assert_eq!(server.terminate().await, Some(0));
    }

    /// Nothing moves at Coder before the build is being canceled there.
    async fn canceled_and_killed_at(point: &str, program: &Program, (coder, id): (&CoderStub, &str)) {
        let is_later = !["delete.begun", "cancel.accepted", "cancel.asked"].contains(&point);
        let mut doomed = program.clone().variable("FLEET_KILL_POINT", point).serve().await;
        program.run(&["--json", "operations", "cancel", id]).await;
        if is_later {
            canceling(coder).await;
        }
        dead(point, program, &mut doomed).await;
        let server = program.serve().await;
        if !is_later {
            canceling(coder).await;
        }
        settled(program).await;
        assert_eq!(server.terminate().await, Some(0));
    }

    /// Waits until Coder cancels the build, and lets time pass there.
    async fn canceling(coder: &CoderStub) {
        eventually("the build is being canceled", async || {
            let latest = coder.workspace("one")["latest_build"].clone();
            // Coder cancels a build that has not begun at once, and then takes the delete.
            let status = &latest["job"]["status"];
            status == "canceling" || status == "canceled" || latest["transition"] == "delete"
        })
        .await;
        coder.set_pace(Pace::PerRead);
    }

    async fn dead(point: &str, program: &Program, doomed: &mut ServerProcess) {
        let ended = tokio::time::timeout(std::time::Duration::from_secs(30), doomed.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("the server did not die at {point}")).unwrap();
        assert_eq!(status.code(), None, "{point}: killed, not ended: {}", program.log());
    }

    /// Waits until no operation is under way.
    async fn settled(program: &Program) {
        eventually("no operation is under way", async || {
            // It may find fault with agents that cannot call us: nothing runs in these workspaces.
            let told = program.run(&["--json", "doctor"]).await;
            String::from_utf8_lossy(&told.stdout).contains("0 in progress")
        })
        .await;
    }

    async fn agents(program: &Program) -> Vec<(String, String)> {
        let list = program.json(&["--json", "agents", "list"]).await;
        let agents = list["agents"].as_array().unwrap().iter();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        agents.map(|agent| (text(&agent["name"]), text(&agent["status"]))).collect()
    }

    /// What a later server lists once nothing moves any more.
    async fn listed(program: &Program) -> Vec<(String, String)> {
        let server = program.serve().await;
        eventually("no agent moves", async || {
            agents(program).await.iter().all(|(_, status)| ["idle", "stopped"].contains(&status.as_str()))
        })
        .await;
        let agents = agents(program).await;
        server.terminate().await;
        agents
    }

    fn row(name: &str, status: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), status.to_owned())]
    }

    async fn with_agent() -> (CoderStub, Program) {
        let coder = stub(Pace::PerRead).await;
        let program = Program::on(&coder).hurried();
        let server = program.serve().await;
        program.json(&creation_awaited("x", "one")).await;
        settled(&program).await;
        server.terminate().await;
        (coder, program)
    }

    #[tokio::test]
    async fn create_converges_from_every_point() {
        for point in POINTS_OF_CREATE {
            let coder = stub(Pace::PerRead).await;
            let program = Program::on(&coder).hurried();
            killed_at(point, &program, &creation("x", "one")).await;
            assert_eq!(listed(&program).await, row("one", "idle"), "{point}");
            let workspaces = coder.workspaces();
            assert_eq!((workspaces.len(), workspaces[0].builds), (1, 1), "{point}");
        }
    }

    #[tokio::test]
    async fn stop_start_and_restart_converge_from_every_point() {
        for point in POINTS_OF_CHANGE {
            let (coder, program) = with_agent().await;
            killed_at(point, &program, &["--json", "agents", "stop", "one"]).await;
            assert_eq!(listed(&program).await, row("one", "stopped"), "stop {point}");
            assert_eq!(coder.workspaces()[0].builds, 2, "stop {point}");
            killed_at(point, &program, &["--json", "agents", "start", "one"]).await;
            assert_eq!(listed(&program).await, row("one", "idle"), "start {point}");
            assert_eq!(coder.workspaces()[0].builds, 3, "start {point}");
            killed_at(point, &program, &["--json", "agents", "restart", "one"]).await;
            assert_eq!(listed(&program).await, row("one", "idle"), "restart {point}");
            assert_eq!(coder.workspaces()[0].builds, 5, "restart {point}");
        }
    }

    /// The id of the one operation under way.
    async fn under_way(program: &Program) -> String {
        let list = program.json(&["--json", "operations", "list"]).await;
        list["operations"][0]["id"].as_str().unwrap().to_owned()
    }

    /// Kind and state of the newest operation that is no delete.
    async fn newest(program: &Program) -> (String, String) {
        let server = program.serve().await;
        let list = program.json(&["--json", "operations", "list", "--all"]).await;
        server.terminate().await;
        let operations = list["operations"].as_array().unwrap();
        let found = operations.iter().find(|row| row["kind"] != "delete").unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        (text(&found["kind"]), text(&found["state"]))
    }

    #[tokio::test]
    async fn the_cancel_of_a_stop_converges_from_every_point() {
        for point in POINTS_OF_CANCEL {
            let (coder, program) = with_agent().await;
            coder.set_pace(Pace::Held);
            let server = program.serve().await;
            program.json(&["--json", "agents", "stop", "one"]).await;
            eventually("the stop is sent", async || coder.workspaces()[0].builds == 2).await;
            let id = under_way(&program).await;
            server.terminate().await;
            canceled_and_killed_at(point, &program, (&coder, &id)).await;
            assert_eq!(newest(&program).await, ("stop".to_owned(), "canceled".to_owned()), "{point}");
            assert_eq!(coder.workspaces()[0].builds, 2, "{point}");
        }
    }

    #[tokio::test]
    async fn the_cancel_of_a_create_leaves_nothing_from_every_point() {
        for point in POINTS_OF_TAKING_BACK {
            let coder = stub(Pace::Held).await;
            let program = Program::on(&coder).hurried();
            let server = program.serve().await;
            program.json(&creation("x", "one")).await;
            eventually("Coder has the workspace", async || coder.workspaces().len() == 1).await;
            let id = under_way(&program).await;
            server.terminate().await;
            canceled_and_killed_at(point, &program, (&coder, &id)).await;
            assert_eq!(listed(&program).await, Vec::new(), "{point}");
            assert_eq!(newest(&program).await, ("create".to_owned(), "canceled".to_owned()), "{point}");
        }
    }

    #[tokio::test]
    async fn delete_converges_from_every_point() {
        for point in POINTS_OF_DELETE {
            let (coder, program) = with_agent().await;
            killed_at(point, &program, &["--json", "agents", "delete", "one", "-y"]).await;
            assert_eq!(listed(&program).await, Vec::new(), "{point}");
            assert_eq!(coder.workspaces()[0].builds, 2, "{point}");
        }
    }
}
