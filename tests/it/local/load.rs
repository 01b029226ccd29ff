//! Many workspaces at once: all become ready, no more build together than there are slots, nothing is left.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{LocalSite, TEMPLATE, is_over, is_ready};

const COUNT: usize = 20;
/// What a clean stop may take, with any number of agents.
const CLEAN_STOP: Duration = Duration::from_secs(25);

#[tokio::test]
async fn twenty_workspaces_at_once_become_ready_stop_and_go() {
    let site = LocalSite::new();
    let local = site.start().await;
    let created = join_all((0..COUNT).map(|n| {
        let name = format!("agent-{n}");
        let local = &local;
        async move { local.create(TEMPLATE, &name, "").await.body["id"].clone() }
    }))
    .await;
    let listed = local.api().get("/api/v2/workspaces?limit=100").await.body;
    let rows = listed["workspaces"].as_array().unwrap();
    let jobs: Vec<&Value> = rows.iter().map(|row| &row["latest_build"]["job"]).collect();
    assert!(jobs.iter().filter(|job| job["status"] == "running").count() <= 3);
    let pending = jobs.iter().filter(|job| job["status"] == "pending");
    let mut positions: Vec<u64> = pending.map(|job| job["queue_position"].as_u64().unwrap()).collect();
    positions.sort_unstable();
    assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>());
    join_all(created.iter().map(|id| local.until(id, is_ready))).await;
    assert_eq!(site.runners().len(), COUNT);
    join_all(created.iter().map(async |id| {
        assert_eq!(local.build(id, &json!({ "transition": "delete" })).await.status, 201);
        local.until(id, is_over).await
    }))
    .await;
    assert_eq!((site.processes(), site.workspace_names()), (Vec::new(), Vec::new()));
    local.coder.stop().await;
}

#[tokio::test]
async fn twenty_agents_have_ended_within_the_time_of_a_clean_stop() {
    let mut site = LocalSite::new();
    site.options.slots = COUNT.try_into().unwrap();
    let local = site.start().await;
    join_all((0..COUNT).map(async |n| local.create_ready(&format!("agent-{n}")).await)).await;
    assert_eq!(site.runners().len(), COUNT);
    let asked_at = Instant::now();
    local.coder.stop().await;
    let took = asked_at.elapsed();
    assert_eq!(site.processes(), Vec::<u32>::new());
    assert!(took < CLEAN_STOP, "{took:?}");
}

#[tokio::test]
async fn of_many_creates_with_one_name_one_wins() {
    let site = LocalSite::new();
    let local = site.start().await;
    let mut statuses: Vec<u16> = join_all((0..6).map(|_| local.create(TEMPLATE, "same", "")))
        .await
        .iter()
        .map(|reply| reply.status)
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409]);
    local.coder.stop().await;
}
