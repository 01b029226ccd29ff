//! What the embedded Coder streams has the frames, keys and types that a real one was recorded with.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{LocalSite, RunningLocal, fixture};
use crate::stub::shape::assert_same_shape;

/// Status, content type and the first events of a stream.
async fn events(local: &RunningLocal, path: &str, count: usize) -> (u16, Value, Vec<Value>) {
    let mut response = local.api().request(Method::GET, path).send().await.unwrap();
    let kind = json!(response.headers()["content-type"].to_str().unwrap());
    let (status, mut read) = (response.status().as_u16(), String::new());
    while read.matches("\n\n").count() < count {
        read += std::str::from_utf8(&response.chunk().await.unwrap().expect("the stream goes on")).unwrap();
    }
    (status, kind, read.split("\n\n").take(count).map(event).collect())
}

fn event(block: &str) -> Value {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    json!({ "event": field("event:"), "data": serde_json::from_str::<Value>(field("data:")).unwrap() })
}

/// The kinds of events are the same, and each has the same shape.
fn assert_same_events(name: &str, recorded: &Value, ours: &[Value]) {
    let kinds = |events: &[Value]| -> Vec<(Value, Value)> {
        events.iter().map(|event| (event["event"].clone(), event["data"]["type"].clone())).collect()
    };
    let recorded = &recorded.as_array().unwrap()[..ours.len()];
    assert_eq!(kinds(ours), kinds(recorded), "{name}");
    for (recorded, ours) in recorded.iter().zip(ours) {
        assert_same_shape(name, &recorded["data"], &ours["data"]);
    }
}

fn assert_same_stream(name: &str, events: &str, ours: &(u16, Value, Vec<Value>)) {
    let recorded = fixture(name).raw;
    let meta = &recorded["meta"];
    assert_eq!((&json!(ours.0), &ours.1), (&meta["status"], &meta["headers"]["Content-Type"]), "{name}");
    assert_same_events(name, &recorded[events], &ours.2);
}

#[tokio::test]
async fn an_agents_metadata_is_watched_as_recorded() {
    let site = LocalSite::new();
    let local = site.start().await;
    let ready = local.create_ready("agent-one").await;
    let agent = format!("/api/v2/workspaceagents/{}", ready.latest_build.resources[0].agents[0].id);
    let metadata = events(&local, &format!("{agent}/watch-metadata"), 1).await;
    assert_same_stream("063", "events", &metadata);
    local.coder.stop().await;
}
