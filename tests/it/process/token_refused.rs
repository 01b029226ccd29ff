//! A server whose Coder token is refused says so, and which setting to change, on every surface.

use serde_json::{Value, json};

use super::{creation, with_token_file};
use crate::harness::{
    Api, CoderStub, Fault, Matches, Pace, Program, Rule, When, eventually, mcp_answer, mcp_request, read,
    stub,
};

const REFUSED: &str = "Coder refused the server's token (401)";
const REMEDY: &str = "Set CODER_SESSION_TOKEN to a token that Coder accepts and restart the server.";
const FILE_REMEDY: &str = "Write a token that Coder accepts into the file that coder.token_file names.";

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The program with a token that nothing accepts.
async fn wrong() -> (CoderStub, Program) {
    let coder = stub(Pace::Instant).await;
    let program = Program::new(coder.url(), "0123456789-0123456789012345678901");
    (coder, program)
}

fn token(program: &Program) -> String {
    std::fs::read_to_string(program.data_dir().join("operator.token")).unwrap().trim().to_owned()
}

#[tokio::test]
async fn errors_status_and_doctor_name_the_refusal_and_the_setting() {
    let (_coder, program) = wrong().await;
    let server = program.serve().await;
    let (api, token) = (Api::new(server.url.trim_end_matches('/'), ""), token(&program));
    let create = json!({ "project": "setup", "spec": "do it", "name": "one" });
    let rest =
        read(api.bare(reqwest::Method::POST, "/api/v1/agents").bearer_auth(&token).json(&create)).await;
    let told = rest.unwrap().body;
    assert_eq!((&told["code"], &told["message"]), (&json!("CODER_UNAVAILABLE"), &json!(REFUSED)));
    assert_eq!(told["next_action"], REMEDY);
    for (tool, arguments) in
        [("create_agent", create), ("list_agents", json!({})), ("list_agent_projects", json!({}))]
    {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = read(mcp_request(&api, &token, ("tools/call", tool), params)).await.unwrap().body;
        let text = mcp_answer(answer)["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&told["message"], &told["next_action"]), (&json!(REFUSED), &json!(REMEDY)), "{tool}");
    }
    let status = program.json(&["--json", "status"]).await;
    assert_eq!(status["coder"]["error"], format!("{REFUSED}. {REMEDY}"));
    let shown = program.run(&["status"]).await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&format!("unusable, last good response never: {REFUSED}. {REMEDY}")), "{shown}");
    let listed = program.run(&["agents", "list"]).await;
    assert_eq!(listed.status.code(), Some(5), "{}", stderr(&listed));
    assert!(
        stderr(&listed).contains(REFUSED) && stderr(&listed).contains("CODER_SESSION_TOKEN"),
        "{}",
        stderr(&listed)
    );
    let doctor = program.run(&["doctor", "--json"]).await;
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let coder = checks.iter().find(|check| check["name"] == "coder").unwrap();
    assert_eq!((&coder["finding"], &coder["remedy"]), (&json!(REFUSED), &json!(REMEDY)));
}

#[tokio::test]
async fn work_accepted_meanwhile_says_that_it_waits_until_the_file_has_another_token() {
    let coder = stub(Pace::Instant).await;
    let (program, file) = with_token_file(&coder);
    let _server = program.serve().await;
    let fresh = coder.token_rotate();
    let error = async || program.json(&["--json", "status"]).await["coder"]["error"].clone();
    let told = format!("{REFUSED}. {FILE_REMEDY}");
    eventually("the refusal is told", async || error().await == told).await;
    let created = program.json(&creation("do it", "one")).await;
    assert_eq!(created["message"], format!("agent 'one' was accepted and waits for Coder: {told}"));
    let row = async || program.json(&["--json", "agents", "list"]).await["agents"][0].clone();
    eventually("the agent says what it waits for", async || {
        let row = row().await;
        row["status"] == "pending"
            && row["reason"].as_str().unwrap().starts_with(&format!("waits for Coder: {REFUSED}"))
    })
    .await;
    let shown = program.json(&["--json", "agents", "show", "one"]).await;
    assert_eq!(shown["agent"]["reason"], format!("waits for Coder: {told}"));
    let operations = program.json(&["--json", "operations", "list"]).await;
    assert_eq!(operations["operations"][0]["message"], format!("waits for Coder: {told}"));
    std::fs::write(&file, fresh).unwrap();
    eventually("the agent is made", async || row().await["status"] == "idle").await;
}

#[tokio::test]
async fn a_token_without_the_rights_to_look_is_a_refused_one() {
    let coder = stub(Pace::Instant).await;
    let program = Program::on(&coder);
    let matches = Matches::call("GET", "/api/v2/workspaces");
    coder.fault(Rule { matches, when: When::Always, kind: Fault::Forbidden });
    let _server = program.serve().await;
    let told = format!("Coder refused the server's token (403). {REMEDY}");
    let error = async || program.json(&["--json", "status"]).await["coder"]["error"].clone();
    eventually("the refusal is told", async || error().await == told).await;
}
