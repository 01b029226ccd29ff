//! Random operations of several clients under random kills: afterwards twelve invariants hold, round after round.
//!
//! `FLEET_CHAOS_ROUNDS` sets the number of rounds (`tests/run --long`: 200) and `FLEET_CHAOS_SEED` the seed of the
//! first. A seed fixes what clients and killer choose, not how their steps interleave.

mod actions;
mod calls;
mod checks;
mod client;
mod database;
mod facts;
mod faults;
mod ledger;
mod processes;
mod report;
mod settle;
mod world;

use std::ops::Range;
use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::checks::{Context, DIRECTORIES, DOCTOR, EndedRows, STATUS, TASKS, UNCLEAN, Violation, violations};
use self::client::Client;
use self::facts::Facts;
use self::faults::{FaultCounts, inject, stop};
use self::report::Report;
use self::settle::{LIMIT, settled};
use self::world::World;
use crate::harness::Up;

/// In a normal run; a long one sets more.
const ROUNDS: u64 = 2;
const SEED: u64 = 20_261_117;
const CLIENTS: usize = 6;
/// So many rounds share a data directory, unless an invariant breaks first.
const ROUNDS_PER_WORLD: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_under_random_kills_break_no_invariant() {
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (n_rounds, seed) = (number("FLEET_CHAOS_ROUNDS", ROUNDS), number("FLEET_CHAOS_SEED", SEED));
    let mut report = Report::default();
    let mut first = 0;
    while first < n_rounds {
        let last = n_rounds.min(first + ROUNDS_PER_WORLD);
        first = in_one_world(first..last, seed, &mut report).await;
    }
    report.print();
    assert!(report.violations.is_empty(), "{} violations, see above", report.violations.len());
}

/// Plays these rounds on one data directory; returns the first that was not played.
async fn in_one_world(rounds: Range<u64>, seed: u64, report: &mut Report) -> u64 {
    let (world, mut up) = World::new().await;
    let mut ended = EndedRows::default();
    for round in rounds.clone() {
        let seed = seed.wrapping_add(round);
        let (next, counts) = fault_phase(&world, up, (round, seed), &mut ended).await;
        up = next;
        let (facts, took) = settled(&world, &up).await;
        world.count_killed_runners(&counts);
        let mut found = check(&world, &facts, &ended);
        found.extend(counts.complaints.iter().map(|complaint| violation(UNCLEAN, complaint)));
        found.extend(doctor(&world).await);
        ended.remember(&facts.rows);
        let is_broken = !found.is_empty();
        report.round(took, &counts);
        report.findings(&world, &format!("round {round} seed {seed} settled in {took:.1?}"), found);
        if is_broken {
            report.world(&world.ledger.now(), &facts.rows);
            return round + 1;
        }
    }
    let mut found = start_all(&world, &up).await;
    found.extend(delete_all(&world, up).await);
    report.findings(&world, &format!("end of rounds {rounds:?} seed {seed}"), found);
    report.world(&world.ledger.now(), &database::rows(&world).await);
    rounds.end
}

fn check(world: &World, facts: &Facts, ended: &EndedRows) -> Vec<Violation> {
    violations(&Context { world, facts, acknowledged: &world.ledger.now(), ended })
}

/// What `doctor` still finds after the time that everything has to come to rest: an agent whose workspace could not be
/// written to is tried again.
async fn doctor(world: &World) -> Vec<Violation> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let output = world.program.run(&["--json", "doctor"]).await;
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap().iter().filter(|check| check["ok"] != true);
        let found: Vec<Violation> = checks.map(|check| violation(DOCTOR, &check.to_string())).collect();
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn violation(invariant: &'static str, evidence: &str) -> Violation {
    Violation { invariant, evidence: evidence.to_owned() }
}

/// Faults are injected for as long as clients call.
async fn fault_phase(
    world: &World,
    mut up: Up,
    (round, seed): (u64, u64),
    ended: &mut EndedRows,
) -> (Up, FaultCounts) {
    let mut rng = StdRng::seed_from_u64(seed);
    let client = |n: usize, rng: &mut StdRng| Client {
        principal: world.principals[n % world.principals.len()].clone(),
        label: format!("{round}-{n}"),
        rng: StdRng::seed_from_u64(rng.random()),
    };
    let clients: Vec<Client> = (0..CLIENTS).map(|n| client(n, &mut rng)).collect();
    let over = CancellationToken::new();
    let clients = async {
        join_all(clients.into_iter().map(|client| client.run(world))).await;
        over.cancel();
    };
    let faults = async {
        let mut counts = FaultCounts::default();
        while !over.is_cancelled() {
            // Not a wait for something: the moment of the fault is what varies.
            tokio::time::sleep(Duration::from_millis(rng.random_range(100..1500))).await;
            ended.remember(&database::rows(world).await);
            up = inject(world, up, &mut rng, &mut counts).await;
        }
        (up, counts)
    };
    tokio::join!(faults, clients).0
}

/// A start repairs every agent in any state, and each waiting task comes to its end.
async fn start_all(world: &World, up: &Up) -> Vec<Violation> {
    for name in names(up).await {
        let path = format!("/api/v1/agents/{name}/start");
        up.call_as(&up.operator_token(), Method::POST, &path, &json!({})).await;
    }
    let (facts, _) = settled(world, up).await;
    let waiting = facts.rows.tasks.values().filter(|task| task.ended_at.is_none());
    let waiting = waiting.map(|task| violation(TASKS, &format!("not run after a start: {task:?}")));
    let failed = facts.agents.iter().filter(|agent| agent["status"] != "idle");
    let failed = failed.map(|agent| violation(STATUS, &format!("not idle after a start: {agent}")));
    check(world, &facts, &EndedRows::default()).into_iter().chain(waiting).chain(failed).collect()
}

/// After everything is deleted and the server stopped, nothing is left.
async fn delete_all(world: &World, up: Up) -> Vec<Violation> {
    for name in names(&up).await {
        let path = format!("/api/v1/agents/{name}?keep_work=false");
        up.call_as(&up.operator_token(), Method::DELETE, &path, &Value::Null).await;
    }
    let (facts, _) = settled(world, &up).await;
    let left = facts.workspaces.iter().map(|workspace| format!("left after its delete: {workspace:?}"));
    let left = left.map(|evidence| violation(DIRECTORIES, &evidence));
    let mut found: Vec<Violation> =
        check(world, &facts, &EndedRows::default()).into_iter().chain(left).collect();
    let mut counts = FaultCounts::default();
    stop(world, up, &mut counts).await;
    found.extend(counts.complaints.iter().map(|complaint| violation(UNCLEAN, complaint)));
    found
}

async fn names(up: &Up) -> Vec<String> {
    let listed = up.get("/api/v1/agents?include_runs=true&page_size=100").await;
    let agents = listed["agents"].as_array().unwrap().iter();
    agents.map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
}
