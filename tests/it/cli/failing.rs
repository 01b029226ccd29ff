//! What goes wrong is told once, with one thing to do and an exit code a script can use.

use insta::assert_snapshot;
use serde_json::json;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::answers::{error, list};
use super::{Rig, authorized, command, dead_url, private_directory, server_file, told};

#[tokio::test]
async fn an_error_of_the_server_is_told_in_words_of_the_command_line() {
    let rig = Rig::start().await;
    let body = error("NOT_FOUND", "agent 'x' not found", "Call list_agents to see all agents.");
    rig.refuses("GET /agents/x", 404, &body).await;
    assert_snapshot!(rig.run("agents show x"));
}

#[tokio::test]
async fn with_json_the_error_is_the_servers_body() {
    let rig = Rig::start().await;
    let body = error("NOT_FOUND", "agent 'x' not found", "Call list_agents to see all agents.");
    rig.refuses("GET /agents/x", 404, &body).await;
    assert_snapshot!(rig.run("agents show x --json"));
}

#[tokio::test]
async fn member_without_a_task_is_refused_before_any_call() {
    let rig = Rig::start().await;
    assert_snapshot!(rig.run("squad run coder="));
}

#[tokio::test]
async fn exit_codes_follow_the_error_code() {
    let cases = [
        (400, "INVALID_INPUT", 2),
        (404, "NOT_FOUND", 3),
        (401, "UNAUTHENTICATED", 4),
        (403, "FORBIDDEN", 4),
        (429, "RATE_LIMITED", 5),
        (503, "CODER_UNAVAILABLE", 5),
        (500, "INTERNAL", 1),
    ];
    for (status, code, exit) in cases {
        let rig = Rig::start().await;
        rig.refuses("GET /status", status, &error(code, "no", "Wait.")).await;
        let output = rig.command("status").output().unwrap();
        assert_eq!((code, output.status.code()), (code, Some(exit)));
    }
}

#[tokio::test]
async fn escape_sequences_in_an_error_do_not_reach_the_terminal() {
    let rig = Rig::start().await;
    rig.refuses("GET /agents/x", 404, &error("NOT_FOUND", "agent '\u{1b}[2J' not found", "\u{1b}c")).await;
    assert_snapshot!(rig.run("agents show x"));
}

#[test]
fn without_a_server_the_way_to_start_one_is_named() {
    let directory = private_directory();
    let run = |line: &str| told(line, &command(directory.path(), line).output().unwrap());
    assert_snapshot!(run("agents list") + &run("agents list --json") + &run("agents list --watch"));
}

#[tokio::test]
async fn a_server_file_left_by_a_killed_server_means_that_none_runs() {
    let rig = Rig::start().await;
    rig.write_private("server.json", &server_file(&dead_url(), 1, "0.0.1"));
    assert_snapshot!(rig.run("status"));
}

#[test]
fn an_address_where_nothing_listens_is_unavailable() {
    let address = dead_url();
    let directory = private_directory();
    let mut command = command(directory.path(), "status");
    let output = command.env("FLEET_URL", &address).env("FLEET_TOKEN", "fleet_x").output().unwrap();
    assert_snapshot!(told("status", &output).replace(&address, "[URL]"));
}

#[tokio::test]
async fn the_operators_token_is_never_sent_to_an_address_given_by_hand() {
    let rig = Rig::start().await;
    let elsewhere = MockServer::start().await;
    let line = format!("status --url {}", elsewhere.uri());
    let output = rig.command(&line).output().unwrap();
    assert_eq!(elsewhere.received_requests().await.unwrap().len(), 0);
    assert_snapshot!(told(&line, &output).replace(&elsewhere.uri(), "[ELSEWHERE]"));
}

#[tokio::test]
async fn an_address_given_by_hand_gets_the_token_of_the_environment() {
    let rig = Rig::start().await;
    let elsewhere = MockServer::start().await;
    let answer = ResponseTemplate::new(200).set_body_json(list(Vec::new()));
    Mock::given(any()).respond_with(answer).mount(&elsewhere).await;
    let line = format!("agents list --url {}/under/a/path/", elsewhere.uri());
    let output = rig.command(&line).env("FLEET_TOKEN", "fleet_given").output().unwrap();
    let asked = &elsewhere.received_requests().await.unwrap()[0];
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(asked.url.path(), "/under/a/path/api/v1/agents");
    assert_eq!(asked.headers["authorization"], "Bearer fleet_given");
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_not_used_for_loopback() {
    let rig = Rig::start().await;
    let proxy = MockServer::start().await;
    rig.answers("GET /agents", &list(Vec::new())).await;
    let mut command = rig.command("agents list");
    command.env("HTTP_PROXY", proxy.uri()).env("http_proxy", proxy.uri()).env("ALL_PROXY", proxy.uri());
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    assert_eq!(proxy.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn an_answer_that_is_not_ours_is_not_taken_for_one() {
    let rig = Rig::start().await;
    let page = ResponseTemplate::new(502).set_body_string("<html>Bad gateway</html>");
    authorized("GET /status").respond_with(page).mount(&rig.server).await;
    rig.answers("GET /projects", &json!({"colour": "blue"})).await;
    assert_snapshot!(rig.run("status") + &rig.run("projects"));
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let rig = Rig::start().await;
    rig.write_private("server.json", "not json");
    let broken = rig.run("status");
    rig.write_server_file(1, "0.0.1");
    std::fs::remove_file(rig.directory.path().join("operator.token")).unwrap();
    let no_token = rig.run("status");
    rig.write_private("operator.token", super::TOKEN);
    let no_spec = rig.run("agents create --project p --spec-file /there/is/no/such/file");
    assert_snapshot!(broken + &no_token + &no_spec);
}

/// An agent that could put a link and another `server.json` in place of the real files would be sent the token.
#[tokio::test]
async fn a_linked_token_or_server_file_is_not_read() {
    for name in ["operator.token", "server.json"] {
        let rig = Rig::start().await;
        rig.answers("GET /agents", &list(Vec::new())).await;
        assert_eq!(rig.command("agents list").output().unwrap().status.code(), Some(0));
        let file = rig.directory.path().join(name);
        std::fs::rename(&file, file.with_extension("real")).unwrap();
        std::os::unix::fs::symlink(file.with_extension("real"), &file).unwrap();
        let told = rig.run("agents list");
        let expected = format!(
            "$ fleet-mcp agents list\n--- stdout\n--- stderr\nerror: read [DATA]/{name}: it is not a regular file\n  \
             next: Check that the file exists and that you may read it.\n--- exit 1\n"
        );
        assert_eq!((told, rig.requests().await.len()), (expected, 1));
    }
}

#[test]
fn mistakes_of_usage_end_with_two() {
    let directory = private_directory();
    for line in ["", "upp", "agents show a_b", "agents stop", "serve --token x"] {
        let output = command(directory.path(), line).output().unwrap();
        assert_eq!((line, output.status.code()), (line, Some(2)));
    }
}
