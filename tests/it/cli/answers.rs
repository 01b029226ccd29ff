//! Answers of the server, built from the very shapes it uses.

use std::collections::BTreeMap;

use chrono::{TimeDelta, Utc};
use fleet_mcp::view::agent::{
    AgentChanged, AgentDetail, AgentList, AgentRow, AgentsWaited, ChangedAgent, Links, SpecSections,
};
use fleet_mcp::view::paging::Paging;
use fleet_mcp::view::task::TaskSummary;
use fleet_mcp::view::usage::UsageDetail;
use serde_json::{Value, json};

/// A time whose age reads the same however slow the test is: half a unit away from the next.
pub(super) fn days_ago(days: i64) -> String {
    fleet_mcp::view::time(Utc::now() - TimeDelta::days(days) - TimeDelta::hours(12))
}

pub(super) fn in_days(days: i64) -> String {
    fleet_mcp::view::time(Utc::now() + TimeDelta::days(days) + TimeDelta::hours(12))
}

pub(super) fn row(name: &str, status: &str) -> AgentRow {
    AgentRow {
        name: name.into(),
        status: status.into(),
        reason: format!("it is {status}"),
        attention: "none".into(),
        role: "coder".into(),
        project: "setup".into(),
        directory: None,
        current_task: (status == "busy").then(|| "Fix the login form".to_owned()),
        last_task: None,
        review: None,
        pull_request_url: None,
        pull_request_status: None,
        pull_request_check_status: None,
        start_note: None,
        usage: None,
        observed_at: Some(days_ago(3)),
    }
}

pub(super) fn paging(total_count: i64, page: i64, total_pages: i64) -> Paging {
    Paging {
        total_count,
        page,
        page_size: 50,
        total_pages,
        has_next_page: page < total_pages,
        has_previous_page: page > 1,
    }
}

pub(super) fn list(agents: Vec<AgentRow>) -> AgentList {
    let total = i64::try_from(agents.len()).unwrap();
    AgentList { agents, paging: paging(total, 1, 1), counts: BTreeMap::from([("busy".into(), 1)]) }
}

pub(super) fn detail(name: &str, status: &str) -> AgentDetail {
    AgentDetail {
        name: name.into(),
        workspace_id: None,
        status: status.into(),
        reason: format!("it is {status}"),
        attention: "none".into(),
        role: "coder".into(),
        project: "setup".into(),
        directory: Some("/srv/shop".into()),
        spec: "# Objective\nFix the login form\u{1b}[2J\n".into(),
        spec_sections: SpecSections::default(),
        current_task: None,
        last_task: Some(task()),
        review: None,
        metadata: BTreeMap::from([
            ("fleet_mcp_agent_spec".into(), "Fix the login form".into()),
            ("fleet_mcp_branch".into(), "fix/login\u{7}".into()),
        ]),
        git: None,
        usage: Some(UsageDetail {
            cost_usd: Some(0.25),
            tokens: 1_234,
            input_tokens: 1_200,
            output_tokens: 34,
            unknown_runs: 0,
        }),
        generation: 3,
        starts: Some(2),
        callback: None,
        callback_reason: None,
        created_at: days_ago(5),
        updated_at: days_ago(3),
        observed_at: Some(days_ago(3)),
        links: Links {
            workspace: None,
            pull_request: Some("https://forge.example/pull/7".into()),
            pull_request_reason: None,
        },
    }
}

fn task() -> TaskSummary {
    TaskSummary {
        id: "0190e1a2-0000-7000-8000-000000000009".into(),
        message: "Fix the login form".into(),
        state: "done".into(),
        outcome: Some("tests pass".into()),
        source: "human".into(),
        verified: None,
        created_at: days_ago(4),
    }
}

pub(super) fn changed(name: &str, status: &str, message: &str) -> AgentChanged {
    AgentChanged {
        agent: row(name, status),
        message: message.into(),
        operation_id: Some("0190e1a2-0000-7000-8000-00000000000a".into()),
        cursor: "7".into(),
        warnings: Vec::new(),
    }
}

pub(super) fn change(name: &str, before: &str, now: &str) -> ChangedAgent {
    ChangedAgent { agent: row(name, now), previous_status: Some(before.into()) }
}

pub(super) fn waited(changed: Vec<ChangedAgent>, cursor: &str) -> AgentsWaited {
    AgentsWaited { changed, cursor: cursor.into(), timed_out: false }
}

pub(super) fn error(code: &str, message: &str, next_action: &str) -> Value {
    json!({
        "code": code,
        "message": message,
        "retryable": false,
        "next_action": next_action,
        "instance_id": null,
        "tool_name": "show_agent",
        "details": {},
    })
}
