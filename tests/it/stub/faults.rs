//! Each awkward answer of the stub does what it says, as often as it was told to.

use crate::harness::{Api, CoderStub, Fault, Matches, Pace, Reply, Rule, When, fixture};
use serde_json::{Value, json};

const CREATE: &str = "/api/v2/users/{user}/workspaces";
const LIST: &str = "/api/v2/workspaces";

fn once(method: &str, pattern: &str, kind: Fault) -> Rule<Fault> {
    Rule { matches: Matches::call(method, pattern), when: When::Nth(1), kind }
}

async fn create(api: &Api, name: &str) -> Reply {
    api.workspace_create("fleet", name).await
}

#[tokio::test]
async fn creates_fail_before_and_after_the_effect() {
    for (fault, status, exists) in [
        (Fault::ErrorBefore, 500, false),
        (Fault::BadGateway, 502, false),
        (Fault::ErrorAfter, 500, true),
        (Fault::CreateConflict, 409, true),
        (Fault::CreateRace, 500, true),
        (Fault::EmptyBody, 201, true),
        (Fault::WrongTypes, 201, true),
    ] {
        let stub = CoderStub::start(Pace::Instant).await;
        let rule = stub.fault(once("POST", CREATE, fault));
        let reply = create(&stub.api(), "one").await;
        let outcome = (reply.status, !stub.workspaces().is_empty(), stub.fault_hits(rule));
        assert_eq!(outcome, (status, exists, 1), "{fault:?}");
    }
}

#[tokio::test]
async fn conflicts_and_races_have_the_recorded_bodies() {
    let stub = CoderStub::start(Pace::Instant).await;
    stub.fault(once("POST", CREATE, Fault::CreateConflict));
    let conflict = create(&stub.api(), "one").await.body;
    stub.fault(once("POST", CREATE, Fault::CreateRace));
    let race = create(&stub.api(), "two").await.body;
    let honest = create(&stub.api(), "one").await.body;
    assert_eq!((conflict, &race["message"]), (honest, &json!("Internal server error")));
    let constraint = "duplicate key value violates unique constraint \"workspaces_owner_id_lower_idx\"";
    assert_eq!(race["detail"].as_str().map(|detail| detail.ends_with(constraint)), Some(true));
}

#[tokio::test]
async fn rate_limits_and_lost_sessions_pass() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    let limited = Fault::RateLimited { retry_after: 60, reset_after: 35 };
    stub.fault(Rule { matches: Matches::path(LIST), when: When::First(1), kind: limited });
    let reply = api.get(LIST).await;
    let reset: i64 = reply.headers["x-ratelimit-reset"].to_str().unwrap().parse().unwrap();
    assert_eq!((reply.status, &reply.headers["retry-after"]), (429, &"60".parse().unwrap()));
    assert_eq!(&reply.body, fixture("338").body());
    assert!(reset > chrono::Utc::now().timestamp());
    stub.fault(Rule { matches: Matches::any(), when: When::First(2), kind: Fault::SignedOut });
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(api.get(LIST).await.status);
    }
    assert_eq!(statuses, [401, 401, 200]);
}

#[tokio::test]
async fn bodies_come_broken_as_told() {
    let stub = CoderStub::start(Pace::Instant).await;
    let api = stub.api();
    stub.seed("agent", 2);
    let honest = api.get(LIST).await.body;
    let broken = async |fault: Fault| {
        stub.fault(once("GET", LIST, fault));
        api.get(LIST).await.body
    };
    assert_eq!(broken(Fault::EmptyBody).await, json!(""));
    assert_eq!(broken(Fault::NullBody).await, Value::Null);
    assert_eq!(broken(Fault::WrongTypes).await["count"], json!("seven"));
    let unknown = broken(Fault::UnknownWords).await;
    assert_eq!(unknown["workspaces"][0]["latest_build"]["status"], "hibernating");
    let bad_row = broken(Fault::BadRow).await;
    assert_eq!(bad_row["workspaces"][0]["latest_build"], "not an object");
    assert_eq!(bad_row["workspaces"][1], honest["workspaces"][1]);
    assert_eq!(api.get(LIST).await.body, honest);
}

#[tokio::test]
async fn rules_hit_the_same_requests_on_every_run() {
    let hits = async |when: When| {
        let stub = CoderStub::start(Pace::Instant).await;
        let rule = stub.fault(Rule { matches: Matches::any(), when, kind: Fault::ErrorBefore });
        let api = stub.api();
        let mut hit = Vec::new();
        for number in 1..=20 {
            if api.get(LIST).await.status == 500 {
                hit.push(number);
            }
        }
        stub.clear_faults();
        assert_eq!((api.get(LIST).await.status, stub.fault_hits(rule)), (200, hit.len()));
        hit
    };
    assert_eq!(hits(When::Always).await, (1..=20).collect::<Vec<_>>());
    assert_eq!(hits(When::Nth(3)).await, [3]);
    assert_eq!(hits(When::Every(7)).await, [7, 14]);
    let half = When::Percent { percent: 50, seed: 1 };
    let first = hits(half).await;
    assert_eq!(first, hits(half).await);
    assert!((5..=15).contains(&first.len()), "about half of 20: {first:?}");
    assert_ne!(first, hits(When::Percent { percent: 50, seed: 2 }).await);
}
