//! Commands that only look: what people read, and what programs get with `--json`.

use std::collections::BTreeMap;

use fleet_mcp::view::agent::{AgentDetail, AgentList, AgentRow, AgentShown, SpecSections};
use fleet_mcp::view::catalog::{AgentProject, AgentProjects, AgentRole, AgentRoles};
use fleet_mcp::view::fleet::{AttentionRow, Capacity, CoderHealth, FleetStatus, Spend};
use fleet_mcp::view::history::{HistoryRow, TaskHistory};
use fleet_mcp::view::token::{AuditList, AuditRow, TokenList, TokenRow};
use insta::assert_snapshot;
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::answers::{days_ago, detail, in_days, list, paging, row};
use super::{Rig, authorized, command, private_directory, told};

#[tokio::test]
async fn agents_list_shows_a_row_an_agent_and_no_escape_sequence() {
    let rig = Rig::start().await;
    let evil = AgentRow { reason: "\u{1b}[2J\u{1b}]0;gone\u{7}".into(), ..row("calm-heron", "idle") };
    let stuck = AgentRow { attention: "stuck".into(), ..row("fix-login", "busy") };
    rig.answers("GET /agents", &list(vec![stuck, evil])).await;
    assert_snapshot!(rig.run("agents list"));
}

#[tokio::test]
async fn agents_list_asks_for_what_was_wanted_and_names_the_next_page() {
    let rig = Rig::start().await;
    let page = AgentList { paging: paging(7, 2, 4), ..list(vec![row("fix-login", "busy")]) };
    rig.answers("GET /agents", &page).await;
    let told = rig.run("agents list --status busy,idle --project setup --role coder --page 2 --page-size 2");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}

#[tokio::test]
async fn an_empty_fleet_says_how_to_begin() {
    let rig = Rig::start().await;
    rig.answers("GET /agents", &list(Vec::new())).await;
    assert_snapshot!(rig.run("agents list"));
}

#[tokio::test]
async fn agents_show_tells_everything() {
    let rig = Rig::start().await;
    rig.answers("GET /agents/fix-login", &AgentShown { agent: detail("fix-login", "idle") }).await;
    assert_snapshot!(rig.run("agents show fix-login"));
}

#[tokio::test]
async fn a_spec_without_some_of_its_headings_is_shown_with_their_names() {
    let rig = Rig::start().await;
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let spec_sections = SpecSections {
        found: names(&["Objective"]),
        missing: names(&["Context", "Constraints", "Deliverables"]),
    };
    let agent = AgentDetail { spec_sections, ..detail("fix-login", "idle") };
    rig.answers("GET /agents/fix-login", &AgentShown { agent }).await;
    let told = rig.run("agents show fix-login");
    let (_, errors) = told.split_once("--- stderr\n").unwrap();
    assert_snapshot!(errors);
}

#[tokio::test]
async fn agents_history_shows_entries_newest_first() {
    let rig = Rig::start().await;
    let entry = |kind: &str, message: &str, outcome: Option<&str>| HistoryRow {
        id: "0190e1a2-0000-7000-8000-000000000001".into(),
        kind: kind.into(),
        message: message.into(),
        state: "done".into(),
        outcome: outcome.map(str::to_owned),
        source: "human".into(),
        task_id: None,
        uri: None,
        needs_user_attention: false,
        generation: 1,
        created_at: days_ago(2),
        verified: None,
        states: Vec::new(),
    };
    let verified = json!({ "commit": "1f2e3d4c5b6a", "new_commit": true, "pushed": false, "clean": true });
    let done = HistoryRow { verified: Some(verified), ..entry("task", "Fix it", Some("tests pass")) };
    let tasks = vec![entry("report", "line one\nline two", None), done];
    let history = TaskHistory { agent_name: "fix-login".into(), tasks, paging: paging(2, 1, 1) };
    rig.answers("GET /agents/fix-login/history", &history).await;
    let told = rig.run("agents history fix-login --kind task --page 1");
    assert_snapshot!(format!("{told}{}", rig.requests().await.join("\n")));
}

fn fleet(coder: CoderHealth, attention: Vec<AttentionRow>) -> FleetStatus {
    FleetStatus {
        counts: BTreeMap::from([("busy".into(), 2), ("failed".into(), 1)]),
        capacity: Capacity { used: 1, free: 2, queued: 0 },
        attention,
        spend_today: Spend { usd: 1.5, tokens: 12_000, unknown_runs: 1 },
        coder,
        mcp_servers: BTreeMap::new(),
        observed_at: Some(days_ago(1)),
    }
}

#[tokio::test]
async fn status_names_the_commands_that_help() {
    let rig = Rig::start().await;
    let coder =
        CoderHealth { reachable: true, version: Some("v2.36.0".into()), last_ok_at: None, error: None };
    let notice = AttentionRow {
        agent: "fix-login".into(),
        attention: "stuck".into(),
        reason: "no activity for 40 min".into(),
        next_action: "Call show_agent for 'fix-login'; if it hangs, restart_agent.".into(),
    };
    rig.answers("GET /status", &fleet(coder, vec![notice])).await;
    assert_snapshot!(rig.run("status"));
}

#[tokio::test]
async fn status_says_that_coder_is_away() {
    let rig = Rig::start().await;
    let coder = CoderHealth {
        reachable: false,
        version: None,
        last_ok_at: Some(days_ago(1)),
        error: Some("connection refused".into()),
    };
    rig.answers("GET /status", &fleet(coder, Vec::new())).await;
    assert_snapshot!(rig.run("status"));
}

#[tokio::test]
async fn roles_and_projects_are_listed() {
    let rig = Rig::start().await;
    let role = AgentRole {
        id: "coder".into(),
        name: "coder".into(),
        display_name: "Coder".into(),
        description: "Writes code.".into(),
        kind: "coding".into(),
        default: true,
        project_name: None,
    };
    let project = AgentProject {
        id: "setup".into(),
        name: "setup".into(),
        display_name: "Setup".into(),
        description: "The setup repository.".into(),
        template_id: "0190e1a2-0000-7000-8000-000000000001".into(),
        template_name: "setup-template".into(),
        default_role: "coder".into(),
    };
    let roles = AgentRoles { roles: vec![role], project_name: Some("setup".into()), total_count: 1 };
    let problems = vec!["x.toml: unknown key 'colour'".to_owned()];
    let projects = AgentProjects { projects: vec![project], total_count: 1, problems };
    rig.answers("GET /roles", &roles).await;
    rig.answers("GET /projects", &projects).await;
    assert_snapshot!(rig.run("roles --project setup") + &rig.run("projects"));
}

#[tokio::test]
async fn tokens_are_listed_without_their_texts() {
    let rig = Rig::start().await;
    let token = |name: &str, expires_at: Option<String>, revoked_at: Option<String>| TokenRow {
        id: "0190e1a2-0000-7000-8000-000000000001".into(),
        name: name.into(),
        kind: "manager".into(),
        role: None,
        agent: None,
        projects: Some(vec!["setup".into()]),
        created_at: days_ago(9),
        expires_at,
        revoked_at,
    };
    let tokens = vec![
        token("endless", None, None),
        token("ending", Some(in_days(2)), None),
        token("ended", Some(days_ago(2)), None),
        token("revoked", None, Some(days_ago(1))),
    ];
    rig.answers("GET /tokens", &TokenList { tokens, total_count: 4 }).await;
    assert_snapshot!(rig.run("token list"));
}

#[tokio::test]
async fn audit_shows_refusals_with_their_code() {
    let rig = Rig::start().await;
    let entry = |outcome: &str, code: Option<&str>| AuditRow {
        at: days_ago(1),
        principal_kind: "manager".into(),
        principal: "ci".into(),
        surface: "mcp".into(),
        action: "delete_agent".into(),
        target: Some("fix-login".into()),
        outcome: outcome.into(),
        code: code.map(str::to_owned),
        reason: None,
        operation_id: None,
    };
    let entries = vec![entry("denied", Some("FORBIDDEN")), entry("allowed", None)];
    rig.answers("GET /audit", &AuditList { entries, paging: paging(120, 1, 3) }).await;
    assert_snapshot!(rig.run("audit"));
}

#[tokio::test]
async fn json_is_the_servers_answer_with_its_order_and_unknown_fields() {
    let rig = Rig::start().await;
    let sent = r#"{"total_count":0,"projects":[],"of_a_newer_server":{"x":[1.0,{}]}}"#;
    let answer = ResponseTemplate::new(200).set_body_raw(sent, "application/json");
    authorized("GET /projects").respond_with(answer).mount(&rig.server).await;
    assert_snapshot!(rig.run("projects --json"));
}

#[tokio::test]
async fn json_output_reads_back_as_what_the_server_said() {
    let rig = Rig::start().await;
    let sent = json!(list(vec![AgentRow { reason: "\u{9b}2J".into(), ..row("fix-login", "busy") }]));
    rig.answers("GET /agents", &sent).await;
    let output = rig.command("agents list --json").output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap(), sent);
    assert!(!String::from_utf8(output.stdout).unwrap().contains('\u{9b}'));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn openapi_and_completions_need_no_server() {
    let directory = private_directory();
    for line in ["openapi", "completions bash", "completions zsh", "completions fish"] {
        let output = command(directory.path(), line).output().unwrap();
        assert!(output.status.success(), "{}", told(line, &output));
        assert!(output.stdout.len() > 1, "{line} prints something");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let directory = private_directory();
    let mut command = command(directory.path(), "completions bash");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).output().unwrap();
    assert_snapshot!(told("completions bash", &output));
}
