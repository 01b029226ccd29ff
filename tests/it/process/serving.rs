//! Starting and stopping a server: what it leaves, what it refuses, how it ends.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};

use super::{creation_awaited, with_token_file};
use crate::harness::{
    CoderStub, FaultProxy, Matches, Pace, Program, ProxyFault, Rule, When, eventually, server_file, stub,
};

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn create(program: &Program, name: &str) -> Value {
    program.json(&creation_awaited("do it", name)).await
}

async fn scene() -> (CoderStub, Program) {
    let coder = stub(Pace::PerRead).await;
    let program = Program::on(&coder);
    (coder, program)
}

#[tokio::test]
async fn a_server_announces_itself_serves_and_leaves_cleanly() {
    let (_coder, program) = scene().await;
    let server = program.serve().await;
    let mode =
        |name: &str| std::fs::metadata(program.data_dir().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(""), mode("operator.token"), mode("manager.token"), mode("fleet.db")),
        (0o700, 0o600, 0o600, 0o600)
    );
    let created = create(&program, "one").await;
    assert_eq!((&created["agent"]["name"], &created["agent"]["project"]), (&"one".into(), &"setup".into()));
    assert_eq!(server.terminate().await, Some(0));
    assert_eq!(server_file(&program.data_dir()), None);
}

#[tokio::test]
async fn foreign_hosts_and_pages_are_turned_away_from_mcp_too() {
    let (_coder, program) = scene().await;
    let server = program.serve().await;
    let url = server_file(&program.data_dir()).unwrap().mcp_url;
    let token = std::fs::read_to_string(program.data_dir().join("manager.token")).unwrap();
    let mut statuses = Vec::new();
    for (name, value) in [
        ("Host", "evil.test"),
        ("Origin", "http://evil.test"),
        ("Origin", "null"),
        ("Origin", "http://localhost:3001"),
        ("Origin", "http://[::1]:3001"),
        ("X-Nothing", "at all"),
    ] {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let request = reqwest::Client::new().post(url.clone()).bearer_auth(token.trim()).json(&request);
        let request = request.header("Accept", "application/json, text/event-stream").header(name, value);
        statuses.push((name, value, request.send().await.unwrap().status().as_u16()));
    }
    let expected = [
        ("Host", "evil.test", 403),
        ("Origin", "http://evil.test", 403),
        ("Origin", "null", 403),
        ("Origin", "http://localhost:3001", 200),
        ("Origin", "http://[::1]:3001", 200),
        ("X-Nothing", "at all", 200),
    ];
    assert_eq!(statuses, expected);
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn a_server_that_announces_itself_has_looked_at_its_coder() {
    let (coder, _) = scene().await;
    let proxy = FaultProxy::start(coder.url()).await;
    let kind = ProxyFault::Delay(Duration::from_millis(500));
    proxy.fault(Rule { matches: Matches::call("GET", "/api/v2/templates"), when: When::Nth(1), kind });
    let program = Program::new(&proxy.url(), &coder.token());
    let _server = program.serve().await;
    let known = program.json(&["--json", "projects"]).await;
    let names: Vec<&Value> =
        known["projects"].as_array().unwrap().iter().map(|known| &known["name"]).collect();
    assert_eq!(names, ["dataone", "fleet", "setup"]);
}

#[tokio::test]
async fn a_server_whose_coder_says_nothing_serves_all_the_same() {
    let (coder, _) = scene().await;
    let proxy = FaultProxy::start(coder.url()).await;
    proxy.fault(Rule { matches: Matches::call("GET", "/**"), when: When::Always, kind: ProxyFault::Stall });
    let program = Program::new(&proxy.url(), &coder.token());
    let server = program.serve().await;
    let status = program.json(&["--json", "status"]).await;
    assert_eq!(status["coder"]["reachable"], false);
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn a_second_server_on_the_same_directory_exits_75_and_names_the_first() {
    let (_coder, program) = scene().await;
    let server = program.serve().await;
    let second = program.run(&["serve", "--port", "0"]).await;
    assert_eq!(second.status.code(), Some(75));
    let expected = format!("is held by process {} serving {}", server.child.id().unwrap(), server.url);
    assert!(stderr(&second).contains(&expected), "{}", stderr(&second));
}

#[tokio::test]
async fn down_stops_the_server_and_says_so_twice() {
    let (_coder, program) = scene().await;
    let mut server = program.serve().await;
    assert!(program.run(&["down"]).await.status.success());
    assert!(server.child.wait().await.unwrap().success());
    assert!(program.run(&["down"]).await.status.success());
}

#[tokio::test]
async fn failed_start_prints_one_line_with_the_remedy() {
    let (coder, program) = scene().await;
    let no_coder = program.clone().variable("CODER_URL", "").run(&["serve"]).await;
    assert_eq!(no_coder.status.code(), Some(2));
    assert_eq!(
        stderr(&no_coder),
        "error: no Coder deployment is set: set CODER_URL and CODER_SESSION_TOKEN, or run 'fleet-mcp up', which has an embedded Coder\n"
    );
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let held_port = program.run(&["serve", "--port", &port]).await;
    assert_eq!(held_port.status.code(), Some(1));
    assert!(stderr(&held_port).contains("choose another one with --port"), "{}", stderr(&held_port));
    let blocked = Program::on(&coder);
    std::fs::write(blocked.data_dir(), "a file, not a directory").unwrap();
    let no_directory = blocked.run(&["serve", "--port", "0"]).await;
    assert_eq!(no_directory.status.code(), Some(1));
    assert!(
        stderr(&no_directory).starts_with("error: cannot use the data directory "),
        "{}",
        stderr(&no_directory)
    );
}

#[tokio::test]
async fn an_emptied_database_is_refused_with_the_command_that_begins_anew() {
    let (_coder, program) = scene().await;
    assert_eq!(program.serve().await.terminate().await, Some(0));
    let database = program.data_dir().join("fleet.db");
    std::fs::write(&database, "").unwrap();
    let refused = program.run(&["serve", "--port", "0"]).await;
    let (path, backups) = (database.display(), program.data_dir().join("backups"));
    let expected = format!(
        "{path} is empty, though this data directory was in use before; there is no backup in {}; to start with an empty database run 'rm {path}'",
        backups.display()
    );
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(&expected), "{}", stderr(&refused));
    assert_eq!(std::fs::metadata(&database).unwrap().len(), 0);
    std::fs::remove_file(&database).unwrap();
    assert_eq!(program.serve().await.terminate().await, Some(0));
}

#[tokio::test]
async fn a_server_killed_at_any_time_is_replaced_by_the_next_one() {
    let (coder, program) = scene().await;
    let server = program.serve().await;
    create(&program, "one").await;
    server.kill().await;
    let unreachable = program.run(&["agents", "list"]).await;
    assert_eq!(unreachable.status.code(), Some(5));
    let _server = program.serve().await;
    let listed = program.json(&["--json", "agents", "list"]).await;
    assert_eq!(listed["agents"][0]["name"], "one");
    assert_eq!(coder.workspaces().len(), 1);
}

#[tokio::test]
async fn a_new_token_in_the_file_ends_the_refusal() {
    let coder = stub(Pace::Instant).await;
    let (program, file) = with_token_file(&coder);
    let _server = program.serve().await;
    let fresh = coder.token_rotate();
    let reachable = async || program.json(&["--json", "status"]).await["coder"]["reachable"] == true;
    eventually("the refusal is noticed", async || !reachable().await).await;
    std::fs::write(&file, fresh).unwrap();
    eventually("the new token is taken", reachable).await;
}

/// The loopback network has more addresses than 127.0.0.1.
#[tokio::test]
async fn a_server_on_another_loopback_address_is_reached_there() {
    let (_coder, program) = scene().await;
    let program = program.variable("FLEET_BIND", "127.0.0.2");
    let _server = program.serve().await;
    assert!(server_file(&program.data_dir()).unwrap().url.as_str().starts_with("http://127.0.0.2:"));
    assert_eq!(program.json(&["--json", "status"]).await["coder"]["reachable"], true);
}

#[tokio::test]
async fn no_secret_is_in_the_log_or_the_database() {
    let (coder, program) = scene().await;
    let server = program.variable("MCP_LOG_LEVEL", "trace").serve().await;
    let directory = std::sync::Arc::clone(&server.directory);
    let data = directory.path().join("data");
    let operator = std::fs::read_to_string(data.join("operator.token")).unwrap();
    server.terminate().await;
    let log = std::fs::read(directory.path().join("server.log")).unwrap();
    let database = std::fs::read(data.join("fleet.db")).unwrap();
    for secret in [coder.token(), operator] {
        for sink in [&log, &database] {
            let found = sink.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "a secret is written down");
        }
    }
    assert!(!log.is_empty());
}
