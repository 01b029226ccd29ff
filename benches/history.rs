//! Shows that a page of history costs about the same out of a thousand entries as out of a million.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot be set up should stop at once")]

use std::hint::black_box;

use chrono::{DateTime, TimeDelta, Utc};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fleet_mcp::domain::agent::{Agent, AgentStatus, Attention, Sighting};
use fleet_mcp::domain::history::{HistoryLine, Report};
use fleet_mcp::domain::id::AgentId;
use fleet_mcp::domain::name::AgentName;
use fleet_mcp::domain::page::PageRequest;
use fleet_mcp::domain::task::TaskSource;
use fleet_mcp::domain::words::AppState;
use fleet_mcp::store::{Store, StoreOptions};
use tokio::runtime::Runtime;
use uuid::Uuid;

const SIZES: [i64; 2] = [1_000, 1_000_000];
const PAGE: i64 = 20;
const CHUNK: i64 = 10_000;

fn history(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { path: dir.path().join("fleet.db"), backups: dir.path().join("backups") };
    let store = runtime.block_on(Store::open(&options)).unwrap();
    let mut group = criterion.benchmark_group("history page of 20");
    for size in SIZES {
        let agent = runtime.block_on(agent_with_history(&store, size));
        let pages = size / PAGE;
        for (place, number) in [("first", 1), ("quarter", pages / 4), ("middle", pages / 2), ("last", pages)]
        {
            let request = PageRequest::parse(number, PAGE).unwrap();
            group.bench_function(BenchmarkId::new(place, size), |bencher| {
                bencher.to_async(&runtime).iter(|| async {
                    black_box(store.journal_page(agent, None, request).await.unwrap());
                });
            });
        }
    }
    group.finish();
    runtime.block_on(store.close());
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

criterion_group!(benches, history);
criterion_main!(benches);
