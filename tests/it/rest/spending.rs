//! What agents have used: counted once, only upwards, and told by every answer that speaks of money.

use std::sync::Arc;

use fleet_mcp::domain::agent::AgentStatus;
use fleet_mcp::view::fleet::FleetStatus;
use serde_json::{Value, json};

use super::Server;
use crate::harness::{Pace, RunningFleet, Scene, eventually, operator};

const USAGE: &str = "fleet_mcp_usage";

fn figures(input: u64, output: u64, cost_usd: f64) -> String {
    json!({ "input_tokens": input, "output_tokens": output, "cost_usd": cost_usd }).to_string()
}

/// Writes a figure as the agent's runner does, and returns when the fleet has taken it in.
async fn tells(scene: &Scene, name: &str, value: &str) {
    scene.coder.set_metadata(name, USAGE, value);
    is_seen(&scene.running, name, value).await;
}

async fn is_seen(running: &RunningFleet, name: &str, value: &str) {
    eventually("the figure is seen", async || {
        let snapshot = running.fleet.board().now();
        let seen = snapshot.by_name(name).and_then(|state| state.metadata_value(USAGE));
        seen.as_deref() == Some(value)
    })
    .await;
}

async fn spend_today(running: &RunningFleet) -> Value {
    let overview = running.fleet.fleet_status(&operator()).await.unwrap();
    serde_json::to_value(FleetStatus::from(&overview)).unwrap()["spend_today"].clone()
}

fn spend(usd: f64, tokens: u64) -> Value {
    json!({ "usd": usd, "tokens": tokens })
}

#[tokio::test]
async fn list_show_status_and_metrics_show_the_usage_of_an_agent() {
    let server = Server::start().await;
    server.agent("otter").await;
    server.agent("heron").await;
    let row = async |name: &str| {
        let list = server.get("/api/v1/agents").await.body;
        list["agents"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone()
    };
    assert_eq!(row("otter").await.get("usage"), None, "nothing is known yet");
    tells(&server.scene, "otter", &figures(1_200, 34, 0.25)).await;
    tells(&server.scene, "heron", r#"{"input_tokens":10,"output_tokens":1,"cost_usd":null}"#).await;
    assert_eq!(row("otter").await["usage"], json!({ "cost_usd": 0.25, "tokens": 1_234 }));
    assert_eq!(row("heron").await["usage"], json!({ "tokens": 11 }), "a cost that is unknown is not 0");
    let shown = server.get("/api/v1/agents/otter").await.body;
    let whole = json!({ "cost_usd": 0.25, "tokens": 1_234, "input_tokens": 1_200, "output_tokens": 34, "unknown_runs": 0 });
    assert_eq!(shown["agent"]["usage"], whole);
    assert_eq!(server.get("/api/v1/status").await.body["spend_today"], spend(0.25, 1_245));
    let spending = async || {
        let metrics = server.get("/metrics").await.body;
        let is_told = |line: &&str| line.starts_with("fleet_spend") || line.starts_with("fleet_agent_");
        let mut lines: Vec<String> =
            metrics.as_str().unwrap().lines().filter(is_told).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let of_otter =
        [r#"fleet_agent_cost_usd{agent="otter"} 0.25"#, r#"fleet_agent_tokens{agent="otter"} 1234"#];
    let of_heron = r#"fleet_agent_tokens{agent="heron"} 11"#;
    let today = ["fleet_spend_today_tokens 1245", "fleet_spend_today_usd 0.25"];
    assert_eq!(spending().await, [of_otter[0], of_heron, of_otter[1], today[0], today[1]]);
    server.scene.running.delete("heron").await.unwrap();
    server.scene.running.is_gone("heron").await;
    assert_eq!(spending().await, [of_otter[0], of_otter[1], today[0], today[1]], "what is gone has no line");
}

#[tokio::test]
async fn only_increases_count_and_figures_that_cannot_be_true_do_not() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("otter").await.unwrap();
    scene.running.becomes("otter", AgentStatus::Idle).await;
    tells(&scene, "otter", &figures(100, 0, 1.0)).await;
    assert_eq!(spend_today(&scene.running).await, spend(1.0, 100));
    for lie in [
        figures(50, 0, 0.5),
        figures(u64::MAX, u64::MAX, 1.0),
        figures(100, 0, 1e300),
        figures(100, 0, -5.0),
        r#"{"input_tokens":-7,"output_tokens":1}"#.to_owned(),
        "many".to_owned(),
    ] {
        tells(&scene, "otter", &lie).await;
        assert_eq!(spend_today(&scene.running).await, spend(1.0, 100), "{lie}");
    }
    tells(&scene, "otter", &figures(120, 10, 1.25)).await;
    assert_eq!(spend_today(&scene.running).await, spend(1.25, 130));
}

#[tokio::test]
async fn a_new_server_counts_nothing_twice_and_a_deleted_agent_still_counts() {
    let scene = Scene::new(Pace::Instant).await;
    for name in ["otter", "heron"] {
        scene.running.create(name).await.unwrap();
        scene.running.becomes(name, AgentStatus::Idle).await;
    }
    let told = figures(100, 20, 0.5);
    tells(&scene, "otter", &told).await;
    tells(&scene, "heron", &told).await;
    scene.running.delete("heron").await.unwrap();
    scene.running.is_gone("heron").await;
    assert_eq!(spend_today(&scene.running).await, spend(1.0, 240));
    let directory: Arc<_> = scene.running.stop().await;
    let running = RunningFleet::start_in(directory, scene.coder.url(), &scene.coder.token()).await;
    is_seen(&running, "otter", &told).await;
    assert_eq!(spend_today(&running).await, spend(1.0, 240));
}

#[tokio::test]
async fn usage_that_lists_omit_is_read_before_a_stop_or_delete() {
    let scene = Scene::new(Pace::Instant).await;
    // Lists ask for usage without a template's number in front of it.
    let unlisted = "3_usage";
    for name in ["otter", "heron"] {
        scene.running.create(name).await.unwrap();
        scene.running.becomes(name, AgentStatus::Idle).await;
        scene.coder.set_metadata(name, unlisted, &figures(100, 20, 0.5));
    }
    scene.running.delete("otter").await.unwrap();
    scene.running.is_gone("otter").await;
    assert_eq!(spend_today(&scene.running).await, spend(0.5, 120));
    scene.running.stop_agent("heron").await.unwrap();
    scene.running.becomes("heron", AgentStatus::Stopped).await;
    assert_eq!(spend_today(&scene.running).await, spend(1.0, 240));
}

#[tokio::test]
async fn runs_that_reported_no_usage_are_counted_upwards_and_within_bounds() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("otter").await.unwrap();
    scene.running.becomes("otter", AgentStatus::Idle).await;
    let unknown = |n_runs: u64| {
        json!({ "input_tokens": 0, "output_tokens": 0, "cost_usd": null, "unknown_runs": n_runs }).to_string()
    };
    for (told, counted) in [(2, 2), (1, 2), (u64::MAX, 2), (3, 3)] {
        tells(&scene, "otter", &unknown(told)).await;
        let expected = json!({ "usd": 0.0, "tokens": 0, "unknown_runs": counted });
        assert_eq!(spend_today(&scene.running).await, expected, "{told}");
    }
}

#[tokio::test]
async fn figures_go_on_after_a_restart_of_the_agent_and_begin_anew_with_a_new_disk() {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("otter").await.unwrap();
    scene.running.becomes("otter", AgentStatus::Idle).await;
    tells(&scene, "otter", &figures(100, 0, 1.0)).await;
    restart(&scene, "otter").await;
    tells(&scene, "otter", &figures(150, 0, 1.5)).await;
    assert_eq!(spend_today(&scene.running).await, spend(1.5, 150), "the runner's record was kept");
    restart(&scene, "otter").await;
    tells(&scene, "otter", &figures(30, 0, 0.25)).await;
    assert_eq!(spend_today(&scene.running).await, spend(1.75, 180), "the runner's record was lost");
}

async fn restart(scene: &Scene, name: &str) {
    let sighting = || scene.running.fleet.board().now().by_name(name).unwrap().agent.sighting.clone();
    let before = sighting().generation;
    scene.running.restart_agent(name).await.unwrap();
    eventually("the agent was started anew", async || {
        let now = sighting();
        now.generation > before && now.status == AgentStatus::Idle
    })
    .await;
}
