//! The list of agents as it looks in narrow and in wide terminals.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{AgentList, AgentRow, table};
use crate::view::paging::Paging;
use crate::view::usage::UsageRow;

fn agent(name: &str, status: &str) -> AgentRow {
    AgentRow {
        name: name.into(),
        status: status.into(),
        reason: "ready for a task".into(),
        attention: "none".into(),
        role: "coder".into(),
        project: "setup".into(),
        directory: None,
        current_task: None,
        last_task: None,
        review: None,
        pull_request_url: None,
        pull_request_status: None,
        pull_request_check_status: None,
        start_note: None,
        usage: None,
        observed_at: Some("2026-03-01T11:59:48.000Z".into()),
    }
}

fn fleet() -> AgentList {
    let paging = Paging {
        total_count: 3,
        page: 1,
        page_size: 50,
        total_pages: 1,
        has_next_page: false,
        has_previous_page: false,
    };
    let task = "Rework the sign-in form so that a wrong password is told apart from an unknown account";
    let busy = AgentRow {
        attention: "stuck".into(),
        usage: Some(UsageRow { cost_usd: Some(0.5), tokens: 12_345, unknown_runs: 0 }),
        current_task: Some(format!("\u{1b}[31m{task}")),
        ..agent("fix-login", "busy")
    };
    let pending = AgentRow { observed_at: None, ..agent("brave-otter", "pending") };
    AgentList { agents: vec![busy, agent("calm-heron", "idle"), pending], paging, counts: BTreeMap::new() }
}

#[test]
fn the_list_fits_narrow_and_wide_terminals() {
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    let mut shown = String::new();
    for width in [40, 60, 80, 120] {
        let table = table(&fleet(), now).render(width);
        writeln!(shown, "--- {width}\n{}", anstream::adapter::strip_str(&table)).unwrap();
    }
    insta::assert_snapshot!(shown);
}
