//! `here` is where the caller is: bridges, command lines and plain clients in several directories on one server.

use std::path::Path;

use fleet_mcp::domain::name::AgentName;
use reqwest::Method;
use serde_json::{Value, json};

use super::Left;
use super::bridges::{Bridge, names};
use crate::harness::{Program, Reply, Up, eventually};

fn create(name: &str) -> Value {
    json!({ "project": "here", "spec": "say hello", "name": name, "wait_seconds": 45 })
}

fn squad() -> Value {
    json!({ "members": [{ "roleId": "coder", "task": "say hello" }] })
}

/// The branches of agents in a repository, each with whether its agent lives.
fn branches(repository: &Path) -> Vec<String> {
    let listed = |format: &str, prefix: &str| -> Vec<String> {
        let mut git = std::process::Command::new("git");
        let output = git.arg("-C").arg(repository).args(["for-each-ref", format, prefix]).output();
        String::from_utf8(output.unwrap().stdout).unwrap().lines().map(str::to_owned).collect()
    };
    let alive = listed("--format=fleet/%(refname:lstrip=3)", "refs/fleet/agents");
    let all = listed("--format=%(refname:lstrip=2)", "refs/heads/fleet").into_iter();
    all.map(|name| if alive.contains(&name) { format!("{name} lives") } else { name }).collect()
}

fn runs_in(directory: &Path) -> String {
    AgentName::of_runs_in("here", directory.to_str().unwrap()).to_string()
}

/// The runs workspaces of a list.
fn runs(list: &Value) -> Vec<&str> {
    let mut found = names(list);
    found.retain(|name| name.starts_with("runs-"));
    found.sort_unstable();
    found
}

#[tokio::test]
async fn bridges_and_the_command_line_in_several_repositories_work_each_in_their_own() {
    let program = Program::without_coder().variable("MCP_SERVER_PORT", "0");
    let _left = Left(&program);
    let [red, blue, green] = ["red", "blue", "gr ün"].map(|name| program.repository_named(name));
    let mut in_red = Bridge::open(&program.within(&red), &[]).await;
    let mut in_blue = Bridge::open(&program.within(&blue), &[]).await;
    let by_hand = program.within(&green);
    let arguments =
        ["agents", "create", "--project", "here", "--spec", "say hello", "--name", "green", "--json"];
    let made = tokio::join!(
        in_red.call("create_agent", create("red")),
        in_blue.call("create_agent", create("blue")),
        by_hand.json(&arguments)
    );
    assert!(made.0["agent"]["name"] == "red" && made.1["agent"]["name"] == "blue", "{made:?}");
    eventually("each has its branch", async || {
        [&red, &blue, &green].map(|repository| branches(repository))
            == ["red", "blue", "green"].map(|name| vec![format!("fleet/{name} lives")])
    })
    .await;
    for _twice in 0..2 {
        let (one, two) = tokio::join!(
            in_red.call("start_squad_members", squad()),
            in_blue.call("start_squad_members", squad())
        );
        let places = [&one, &two].map(|run| run["members"][0]["cwd"].clone());
        assert_eq!(places, [json!(red), json!(blue)], "{one} {two}");
    }
    let list = in_blue.call("list_agents", json!({ "include_runs": true })).await;
    assert_eq!(runs(&list), ["runs-here", &runs_in(&blue)]);
    let rows = list["agents"].as_array().unwrap().iter();
    let told: Vec<_> = rows.map(|row| (row["name"].as_str().unwrap(), row["directory"].clone())).collect();
    for (name, directory) in [("red", &red), ("blue", &blue), ("green", &green), (&runs_in(&blue), &blue)] {
        assert!(told.contains(&(name, json!(directory))), "{told:?}");
    }
    in_red.close().await;
    in_blue.close().await;
    assert!(program.run(&["down"]).await.status.success());
}

#[tokio::test]
async fn a_request_key_means_a_request_in_one_directory() {
    let program = Program::without_coder();
    let [red, blue] = ["red", "blue"].map(|name| program.repository_named(name));
    let up = Up::start(&program.within(&red)).await;
    let (mut in_red, mut in_blue) =
        (Bridge::open(&program.within(&red), &[]).await, Bridge::open(&program.within(&blue), &[]).await);
    let with_key = |mut arguments: Value| {
        arguments["request_key"] = json!("k");
        arguments
    };
    let in_here = with_key(json!({ "project": "here", "spec": "say hello" }));
    let first = in_red.call("create_agent", in_here.clone()).await;
    assert_eq!(in_red.call("create_agent", in_here.clone()).await["operation_id"], first["operation_id"]);
    assert_eq!(in_blue.call("create_agent", in_here).await["code"], "KEY_REUSED");
    let members = with_key(squad());
    let first = in_red.call("start_squad_members", members.clone()).await;
    assert_eq!(in_red.call("start_squad_members", members.clone()).await["squadId"], first["squadId"]);
    assert_eq!(in_blue.call("start_squad_members", members).await["code"], "KEY_REUSED");
    // Where the directory does not matter, it is no part of the request.
    let mut elsewhere = with_key(json!({ "project": "setup", "spec": "say hello" }));
    elsewhere["request_key"] = json!("other");
    let first = in_red.call("create_agent", elsewhere.clone()).await;
    assert_eq!(in_blue.call("create_agent", elsewhere).await["operation_id"], first["operation_id"]);
    drop(up);
}

#[tokio::test]
async fn a_directory_that_goes_away_is_told_and_keeps_no_agent_from_its_end() {
    let program = Program::without_coder();
    let red = program.repository_named("red");
    let up = Up::start(&program).await;
    let mut bridge = Bridge::open(&program.within(&red), &[]).await;
    for name in ["one", "two"] {
        assert_eq!(bridge.call("create_agent", create(name)).await["agent"]["name"], name);
    }
    assert_eq!(bridge.call("start_squad_members", squad()).await["members"][0]["cwd"], json!(red));
    std::fs::rename(&red, program.directory.path().join("moved")).unwrap();
    for (tool, arguments) in [("create_agent", create("three")), ("start_squad_members", squad())] {
        let told = bridge.call(tool, arguments).await;
        let told = (&told["code"], &told["message"], &told["next_action"], &told["details"]["field"]);
        let message = format!("the server cannot use '{}' as a directory", red.display());
        let next = "Use a directory on the server's machine and call again.";
        let expected = (&json!("INVALID_INPUT"), &json!(message), &json!(next), &json!("fleet-directory"));
        assert_eq!(told, expected);
    }
    up.delete("one", "").await;
    // What is there now is no repository.
    std::fs::create_dir(&red).unwrap();
    up.delete("two", "").await;
    up.delete(&runs_in(&red), "").await;
    assert_eq!(up.get("/api/v1/agents?include_runs=true").await["total_count"], 0);
    assert!(red.is_dir(), "the directory of runs is never deleted");
}

#[tokio::test]
async fn agents_need_a_repository_and_runs_do_not() {
    let program = Program::without_coder();
    let plain = program.directory.path().join("plain");
    std::fs::create_dir(&plain).unwrap();
    let plain = plain.canonicalize().unwrap();
    let up = Up::start(&program.within(&plain)).await;
    let by_hand = program.within(&plain);
    let refused = by_hand.run(&["agents", "create", "--project", "here", "--spec", "x"]).await;
    let expected = [
        &format!(
            "error: {} is not a git repository: run 'git init' and make a first commit there",
            plain.display()
        ),
        "  next: Run 'git init' there, make a first commit and try again.",
    ];
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), told.lines().collect::<Vec<_>>()), (Some(2), expected.to_vec()));
    // The same for clients that bring no directory.
    let reply = up.call_as(&up.operator_token(), Method::POST, "/api/v1/agents", &create("one")).await;
    assert_eq!((reply.status, &reply.body["code"]), (400, &json!("INVALID_INPUT")), "{}", reply.body);
    let run = by_hand.json(&["squad", "run", "coder=say hello", "--json"]).await;
    assert_eq!(run["members"][0]["cwd"], json!(plain), "{run}");
    assert_eq!(up.get("/api/v1/agents?include_runs=true").await["total_count"], 1);
}

/// A plain client that names a directory by itself.
async fn post_from(up: &Up, token: &str, directory: &str, body: &Value) -> Reply {
    let request = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let request = request.post(format!("{}/api/v1/agents", up.url)).bearer_auth(token);
    crate::harness::read(request.header("fleet-directory", directory).json(body)).await.unwrap()
}

#[tokio::test]
async fn a_plain_client_may_name_a_directory_and_agents_may_not() {
    let program = Program::without_coder();
    let [red, blue] = ["red", "blue"].map(|name| program.repository_named(name));
    let up = Up::start(&program.within(&red)).await;
    let operator = up.operator_token();
    for bad in ["", "relative", "/nowhere/at/all", "file://elsewhere/tmp", "/dev/null"] {
        let reply = post_from(&up, &operator, bad, &create("none")).await;
        let told = (reply.status, &reply.body["code"], &reply.body["details"]["field"]);
        assert_eq!(told, (400, &json!("INVALID_INPUT"), &json!("fleet-directory")), "{bad}");
        // Another project has no use for it.
        let ignored = json!({ "project": "setup", "spec": "say hello" });
        assert_eq!(post_from(&up, &operator, bad, &ignored).await.status, 201, "{bad}");
    }
    let inner = blue.join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::os::unix::fs::symlink(&inner, program.directory.path().join("link")).unwrap();
    let link = program.directory.path().join("link");
    let boss =
        json!({ "project": "here", "spec": "x", "name": "boss", "role": "manager", "wait_seconds": 45 });
    let made = post_from(&up, &operator, link.to_str().unwrap(), &boss).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(up.post("/api/v1/agents", &create("usual")).await["agent"]["name"], "usual");
    up.provisioned("boss").await;
    let token = up.token_of("boss");
    let child = post_from(&up, &token, red.to_str().unwrap(), &create("child")).await;
    assert_eq!(child.status, 201, "{}", child.body);
    let of_boss = ["fleet/boss lives", "fleet/child lives"].map(str::to_owned).to_vec();
    assert_eq!([branches(&red), branches(&blue)], [vec!["fleet/usual lives".to_owned()], of_boss]);
}

#[tokio::test]
async fn the_fleets_own_data_is_no_directory_to_work_in() {
    let program = Program::without_coder();
    let up = Up::start(&program).await;
    up.agent("one").await;
    let inside = program.within(&up.workspace("one").join("repo"));
    inside.run(&["agents", "create", "--project", "here", "--spec", "x", "--name", "two"]).await;
    eventually("it has failed", async || up.show("two").await["status"] == "failed").await;
    let path = up.workspace("one").join("repo").canonicalize().unwrap();
    let reason = format!("{} belongs to the fleet's own data", path.display());
    let told = up.show("two").await["reason"].as_str().unwrap().to_owned();
    assert!(told.contains(&reason), "{told}");
}

/// The server, started in a repository; what is asked for without a directory runs there.
async fn run_by_plain_client(up: &Up) -> Value {
    up.post("/api/v1/squads", &squad()).await["members"][0]["cwd"].clone()
}

#[tokio::test]
async fn runs_stay_where_they_were_when_the_server_is_started_elsewhere() {
    let program = Program::without_coder();
    let [red, blue] = ["red", "blue"].map(|name| program.repository_named(name));
    let up = Up::start(&program.within(&red)).await;
    assert_eq!(run_by_plain_client(&up).await, json!(red));
    let program = up.killed().await;
    let up = Up::start(&program.within(&blue)).await;
    assert_eq!(run_by_plain_client(&up).await, json!(blue));
    let run = program.within(&red).json(&["squad", "run", "coder=say hello", "--json"]).await;
    assert_eq!(run["members"][0]["cwd"], json!(red), "{run}");
    let list = up.get("/api/v1/agents?include_runs=true").await;
    assert_eq!(runs(&list), ["runs-here", &runs_in(&blue)]);
}

#[cfg(feature = "test-hooks")]
mod kill_points {
    use super::*;

    /// A server that dies at this point, started in one directory, called from another, started again in a third.
    async fn killed_at(point: &str, arguments: &[&str]) -> (Up, std::path::PathBuf) {
        let program = Program::without_coder();
        let [red, blue, green] = ["red", "blue", "green"].map(|name| program.repository_named(name));
        let doomed = program.within(&red).variable("FLEET_KILL_POINT", point);
        let doomed = Up::start(&doomed).await;
        program.within(&blue).run(arguments).await;
        doomed.died().await;
        let up = Up::start(&program.within(&green)).await;
        (up, blue)
    }

    #[tokio::test]
    async fn an_agent_accepted_before_a_kill_is_made_in_its_callers_repository() {
        for point in ["create.accepted", "send.recorded", "create.answered"] {
            let create =
                ["agents", "create", "--project", "here", "--spec", "say hello", "--name", "one", "--json"];
            let (up, blue) = killed_at(point, &create).await;
            eventually("it is made", async || branches(&blue) == ["fleet/one lives"]).await;
            up.delete("one", "").await;
        }
    }

    #[tokio::test]
    async fn a_squad_accepted_before_a_kill_runs_in_its_callers_directory() {
        let (up, blue) = killed_at("squad.accepted", &["squad", "run", "coder=say hello"]).await;
        let squads = up.get("/api/v1/squads").await;
        let squad = squads["squads"][0]["squadId"].as_str().unwrap().to_owned();
        let mut status = json!({});
        eventually("it is done", async || {
            status = up.get(&format!("/api/v1/squads?squadId={squad}&wait_seconds=45")).await;
            status["done"] == true
        })
        .await;
        assert_eq!(status["members"][0]["cwd"], json!(blue), "{status}");
    }
}
