//! Shows that a page of history costs about the same out of a thousand entries as out of a million.

use std::hint::black_box;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use fleet_mcp::domain::agent::{Agent, AgentStatus, Attention, Sighting};
use fleet_mcp::domain::history::{HistoryLine, Report};
use fleet_mcp::domain::id::AgentId;
use fleet_mcp::domain::name::AgentName;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::TaskSource;
use fleet_mcp::domain::words::AppState;
use fleet_mcp::store::{Store, StoreOptions};
use uuid::Uuid;

use crate::measure::{Extent, measure, median, worst};

const SIZES: [i64; 2] = [1_000, 1_000_000];
const PAGE: i64 = 20;
const CHUNK: i64 = 10_000;
const ROUNDS: usize = 200;

pub(crate) async fn run(extent: Extent) {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { path: dir.path().join("fleet.db"), backups: dir.path().join("backups") };
    let store = Store::open(&options).await.unwrap();
    let (sizes, n_rounds): (&[i64], usize) = extent.of((&SIZES, ROUNDS), (&SIZES[..1], 1));
    for size in sizes {
        let agent = agent_with_history(&store, *size).await;
        let pages = size / PAGE;
        for (place, number) in [("first", 1), ("quarter", pages / 4), ("middle", pages / 2), ("last", pages)]
        {
            let request = PageRequest::parse(number, PAGE).unwrap();
            let times = measure(n_rounds, Duration::ZERO, async || {
                black_box(store.history_page(agent, None, request).await.unwrap());
            })
            .await;
            let (median, worst) = (median(&times), worst(&times));
            println!("history, {place} page of {PAGE} out of {size}: median {median:?}, worst {worst:?}");
        }
    }
    store.close().await;
}

async fn agent_with_history(store: &Store, size: i64) -> AgentId {
    let agent = store.agent_adopt(&agent(size)).await.unwrap();
    for chunk in 0..(size + CHUNK - 1) / CHUNK {
        let seconds = chunk * CHUNK..size.min((chunk + 1) * CHUNK);
        let reports: Vec<_> = seconds.map(|second| report(agent.id, second)).collect();
        store.journal_add(&reports).await.unwrap();
    }
    agent.id
}

fn agent(size: i64) -> Agent {
    Agent {
        id: AgentId::fresh(),
        name: AgentName::parse(&format!("agent-{size}")).unwrap(),
        workspace_id: None,
        project: "setup".into(),
        role: "coder".into(),
        spec: "a long history".into(),
        pull_request_url: None,
        directory: None,
        created_by: None,
        created_at: start(),
        updated_at: start(),
        deleted_at: None,
        sighting: Sighting {
            status: AgentStatus::Idle,
            previous_status: None,
            reason: "ready for a task".into(),
            attention: Attention::None,
            generation: 1,
            observed_at: None,
            revision: 0,
        },
    }
}

/// One report a second, which is faster than any agent talks: a million of them fill twelve days.
fn report(agent_id: AgentId, second: i64) -> Report {
    Report {
        id: Uuid::now_v7(),
        line: HistoryLine {
            agent_id,
            message: format!("working on step {second} of the plan"),
            source: TaskSource::Agent,
            generation: 1,
            created_at: start() + TimeDelta::seconds(second),
        },
        state: AppState::Working,
        task_id: None,
        uri: None,
        needs_answer: false,
    }
}

fn start() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000)
}
