//! Commands that change something: what they send, what they say, how they end.

use fleet_mcp::view::agent::{AgentChanged, AgentDeleted, AgentList, DeletedAgent, Rescued};
use fleet_mcp::view::token::{TokenCreated, TokenRevoked};
use insta::assert_snapshot;
use serde_json::json;
use wiremock::ResponseTemplate;
use wiremock::matchers::{body_partial_json, query_param};

use super::answers::{change, changed, error, in_days, list, paging, row, waited};
use super::{Rig, authorized};

/// The key that makes a repeated create the same create is new in every run.
fn without_key(requests: &[String]) -> String {
    let hide = |request: &String| match request.split_once("\"request_key\":\"") {
        Some((before, after)) => format!("{before}\"request_key\":\"[KEY]{}", &after[36..]),
        None => request.clone(),
    };
    requests.iter().map(hide).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn create_without_a_terminal_returns_at_once() {
    let rig = Rig::start().await;
    let made = AgentChanged {
        warnings: vec!["the spec has no heading Deliverables".into()],
        ..changed(
            "fix-login",
            "pending",
            "agent 'fix-login' is being made; call wait_for_agents to know more",
        )
    };
    rig.answers("POST /agents", &made).await;
    let told =
        rig.run("agents create --project setup --spec 'Fix the login form' --name fix-login --role coder");
    assert_snapshot!(format!("{told}{}", without_key(&rig.requests().await)));
}

#[tokio::test]
async fn create_with_wait_follows_until_ready_and_answers_as_things_are_then() {
    let rig = Rig::start().await;
    let made = changed("fix-login", "pending", "agent 'fix-login' is being created");
    let answer = ResponseTemplate::new(200).set_body_json(made);
    authorized("POST /agents").respond_with(answer).up_to_n_times(1).mount(&rig.server).await;
    let repeat = "agent 'fix-login' was created by an earlier call with this request_key";
    rig.answers("POST /agents", &changed("fix-login", "busy", repeat)).await;
    let steps = [("0", "starting", "5"), ("5", "starting", "6"), ("6", "busy", "9")];
    for (cursor, status, next) in steps {
        let mut news = waited(vec![change("fix-login", "pending", status)], next);
        let note = (status == "busy").then(|| "an earlier branch is kept".to_owned());
        news.changed[0].agent.start_note = note;
        let wait = authorized("POST /wait").and(body_partial_json(json!({ "cursor": cursor })));
        wait.respond_with(ResponseTemplate::new(200).set_body_json(news)).mount(&rig.server).await;
    }
    let told = rig.run("agents create --project setup --spec x --wait 600");
    assert_snapshot!(format!("{told}{}", without_key(&rig.requests().await)));
    let keys: Vec<String> = rig.requests().await.into_iter().filter(|r| r.contains("request_key")).collect();
    assert_eq!(keys[0], keys[1], "the second create is the first one again");
}

#[tokio::test]
async fn create_that_ends_in_failure_says_why() {
    let rig = Rig::start().await;
    rig.answers("POST /agents", &changed("fix-login", "pending", "agent 'fix-login' is being created")).await;
    rig.answers("POST /wait", &waited(vec![change("fix-login", "starting", "failed")], "7")).await;
    assert_snapshot!(rig.run("agents create --project setup --spec x --wait 600"));
}

#[tokio::test]
async fn create_reads_the_spec_from_a_file() {
    let rig = Rig::start().await;
    rig.write_private("spec.md", "# Objective\nfrom a file\n");
    rig.answers("POST /agents", &changed("fix-login", "pending", "agent 'fix-login' is being created")).await;
    let line = format!("agents create --project setup --no-wait --spec-file {}/spec.md", rig.data_dir());
    assert!(rig.command(&line).output().unwrap().status.success());
    assert_snapshot!(without_key(&rig.requests().await));
}

#[tokio::test]
async fn create_answers_programs_with_the_servers_body() {
    let rig = Rig::start().await;
    let made = json!(changed("fix-login", "pending", "agent 'fix-login' is being created"));
    rig.answers("POST /agents", &made).await;
    let output = rig.command("agents create --project setup --spec x --json").output().unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap(), made);
}

#[tokio::test]
async fn delete_needs_a_yes_without_a_terminal() {
    let rig = Rig::start().await;
    assert_snapshot!(rig.run("agents delete fix-login"));
    assert_eq!(rig.requests().await, Vec::<String>::new());
}

#[tokio::test]
async fn delete_says_where_unpushed_work_went() {
    let rig = Rig::start().await;
    let deleted = AgentDeleted {
        message: "agent 'fix-login' is being deleted".into(),
        deleted_agent: DeletedAgent { name: "fix-login".into(), workspace_id: None },
        agent_name: "fix-login".into(),
        rescued: Some(Rescued {
            path: "rescued/fix-login.bundle".into(),
            bytes: 12,
            commit: "abc".into(),
            id: "0190e1a2-0000-7000-8000-000000000001".into(),
        }),
        operation_id: None,
    };
    rig.answers("DELETE /agents/fix-login", &deleted).await;
    let told = rig.run("agents delete fix-login -y --wait 3")
        + &rig.run("agents delete fix-login -y --discard-work");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}

#[tokio::test]
async fn start_stop_and_restart_say_what_the_server_does() {
    let rig = Rig::start().await;
    for (word, status) in [("start", "starting"), ("stop", "stopping"), ("restart", "stopping")] {
        let body = changed("fix-login", status, &format!("agent 'fix-login': {word}"));
        rig.answers(&format!("POST /agents/fix-login/{word}"), &body).await;
    }
    let told = rig.run("agents start fix-login")
        + &rig.run("agents stop fix-login --wait 9")
        + &rig.run("agents restart fix-login");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}

/// Two pages of running agents, of which one cannot be stopped.
async fn fleet_with_one_stubborn_agent() -> Rig {
    let rig = Rig::start().await;
    for (number, name) in [("1", "calm-heron"), ("2", "fix-login")] {
        let page =
            AgentList { paging: paging(2, number.parse().unwrap(), 2), ..list(vec![row(name, "busy")]) };
        let asked = authorized("GET /agents").and(query_param("page", number));
        asked.respond_with(ResponseTemplate::new(200).set_body_json(page)).mount(&rig.server).await;
    }
    let refusal = error("CODER_REJECTED", "Coder refused: a build is active", "Call show_agent to see it.");
    rig.refuses("POST /agents/calm-heron/stop", 409, &refusal).await;
    let stopping = changed("fix-login", "stopping", "agent 'fix-login' is stopping");
    rig.answers("POST /agents/fix-login/stop", &stopping).await;
    rig
}

#[tokio::test]
async fn stop_all_goes_on_after_a_failure_and_tells_of_it() {
    let rig = fleet_with_one_stubborn_agent().await;
    let told = rig.run("agents stop --all");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}

#[tokio::test]
async fn stop_all_gives_programs_every_answer() {
    let rig = fleet_with_one_stubborn_agent().await;
    let output = rig.command("agents stop --all --json").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["stopped"][0]["agent"]["name"], "fix-login");
    assert_eq!(report["failed"][0]["agent_name"], "calm-heron");
    assert_eq!(report["failed"][0]["error"]["code"], "CODER_REJECTED");
}

#[tokio::test]
async fn a_new_token_is_alone_on_standard_output() {
    let rig = Rig::start().await;
    let token = TokenCreated {
        id: "0190e1a2-0000-7000-8000-000000000001".into(),
        token: "fleet_shown-once".into(),
        kind: "manager".into(),
        role: None,
        agent: None,
        expires_at: Some(in_days(2)),
    };
    rig.answers("POST /tokens", &token).await;
    let told = rig.run("token create --kind manager --name ci --project a --project b --expires 60h");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}

#[tokio::test]
async fn revoking_a_token_tells_how_many_went_with_it() {
    let rig = Rig::start().await;
    let id = "0190e1a2-0000-7000-8000-000000000001";
    rig.answers(&format!("DELETE /tokens/{id}"), &TokenRevoked { id: id.into(), revoked_count: 3 }).await;
    assert_snapshot!(rig.run(&format!("token revoke {id}")));
}

#[tokio::test]
async fn a_token_that_was_revoked_before_is_no_failure() {
    let rig = Rig::start().await;
    let id = "0190e1a2-0000-7000-8000-000000000001";
    rig.answers(&format!("DELETE /tokens/{id}"), &TokenRevoked { id: id.into(), revoked_count: 0 }).await;
    assert_snapshot!(rig.run(&format!("token revoke {id}")));
}
