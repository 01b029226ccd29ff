//! Every status of the table seen end to end: what Coder shows is what a caller reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use fleet_mcp::app::FleetOptions;
use fleet_mcp::app::agents::SetMetadata;
use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::metadata::MetadataKey;
use fleet_mcp::view::agent::{AgentDetail, AgentRow};

use crate::harness::{Pace, RunningFleet, Scene, client, eventually, fleet_options, operator, stub};

async fn ready() -> Scene {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Idle).await;
    scene.coder.set_pace(Pace::Held);
    scene
}

async fn attention_becomes(scene: &Scene, attention: Attention) {
    eventually("the attention is as expected", async || {
        scene.running.fleet.board().now().by_name("one").unwrap().agent.sighting.attention == attention
    })
    .await;
}

#[tokio::test]
async fn the_statuses_of_a_build_are_seen_as_coder_shows_them() {
    let scene = ready().await;
    let rows = [
        ("pending", "pending", AgentStatus::Pending),
        ("running", "starting", AgentStatus::Starting),
        ("running", "stopping", AgentStatus::Stopping),
        ("succeeded", "stopped", AgentStatus::Stopped),
        ("failed", "failed", AgentStatus::Failed),
        ("canceling", "canceling", AgentStatus::Canceling),
        ("canceled", "canceled", AgentStatus::Canceled),
        ("running", "deleting", AgentStatus::Deleting),
    ];
    for (job, status, expected) in rows {
        scene.coder.set_build("one", job, status);
        scene.running.becomes("one", expected).await;
    }
}

#[tokio::test]
async fn the_words_of_a_workspace_agent_are_seen_end_to_end() {
    let scene = ready().await;
    let rows = [
        ("connecting", "created", AgentStatus::Starting),
        ("connected", "start_error", AgentStatus::Failed),
        ("connected", "starting", AgentStatus::Starting),
        ("timeout", "created", AgentStatus::Failed),
        ("connected", "shutting_down", AgentStatus::Stopping),
        ("connected", "ready", AgentStatus::Idle),
        ("connected", "a_new_word", AgentStatus::Failed),
    ];
    for (status, lifecycle, expected) in rows {
        scene.coder.set_agent("one", status, lifecycle);
        scene.running.becomes("one", expected).await;
    }
    let reason = scene.running.show("one").await.unwrap().agent.sighting.reason.clone();
    assert_eq!(reason, "the workspace agent reports the unknown lifecycle 'a_new_word'");
}

#[tokio::test]
async fn a_lost_connection_is_first_unreachable_then_failed_and_may_come_back() {
    let scene = ready().await;
    scene.coder.disconnect("one");
    attention_becomes(&scene, Attention::Unreachable).await;
    assert_eq!(scene.running.status("one"), Some(AgentStatus::Idle));
    scene.coder.backdate("one", TimeDelta::seconds(31));
    scene.running.becomes("one", AgentStatus::Failed).await;
    scene.coder.set_agent("one", "connected", "ready");
    scene.running.becomes("one", AgentStatus::Idle).await;
}

#[tokio::test]
async fn busy_and_idle_follow_the_reports_of_an_agent_without_a_task_of_ours() {
    let scene = ready().await;
    scene.coder.post_app_status("one", "working", "Reading the code");
    scene.running.becomes("one", AgentStatus::Busy).await;
    let state = scene.running.show("one").await.unwrap();
    assert_eq!((state.current_task(), state.tasks.open.is_none()), (Some("Reading the code"), true));
    scene.coder.post_app_status("one", "complete", "Login fixed");
    eventually("the end is told", async || {
        let state = scene.running.show("one").await.unwrap();
        let sighting = &state.agent.sighting;
        (sighting.status, sighting.reason.as_str()) == (AgentStatus::Idle, "Login fixed")
    })
    .await;
    assert_eq!(scene.running.show("one").await.unwrap().current_task(), None);
    scene.coder.post_app_status("one", "failure", "Tests do not pass");
    attention_becomes(&scene, Attention::FailedTask).await;
}

#[tokio::test]
async fn silence_while_busy_is_stuck() {
    let scene = Scene::new(Pace::Instant).await;
    scene.coder.api().workspace_create("setup", "one").await;
    scene.running.becomes("one", AgentStatus::Idle).await;
    scene.coder.post_app_status("one", "working", "Reading the code");
    scene.running.becomes("one", AgentStatus::Busy).await;
    scene.coder.backdate("one", TimeDelta::minutes(40));
    attention_becomes(&scene, Attention::Stuck).await;
    assert_eq!(scene.running.status("one"), Some(AgentStatus::Busy));
}

/// At the pace of a server with default settings.
#[tokio::test]
async fn metadata_of_an_agent_is_seen_within_five_seconds_and_a_bad_address_spoils_nothing() {
    let coder = stub(Pace::Instant).await;
    let options = FleetOptions { poll_interval: Duration::from_secs(1), ..fleet_options() };
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let client = client(coder.url(), &coder.token());
    let running = RunningFleet::start_with(directory, client, options).await.seen().await;
    running.create("one").await.unwrap();
    running.rests("one").await;
    let noted = [
        ("fleet_mcp_any_other", "whatever"),
        ("fleet_mcp_pull_request_check_status", "failing"),
        ("fleet_mcp_pull_request_status", "open"),
        ("fleet_mcp_pull_request_url", "no address at all"),
    ];
    for (key, value) in noted {
        coder.set_metadata("one", key, value);
    }
    let shown = Instant::now();
    eventually("all of it is seen", async || {
        let state = running.show("one").await.unwrap();
        noted.iter().all(|(key, value)| state.metadata_value(key).as_deref() == Some(*value))
    })
    .await;
    assert!(shown.elapsed() < Duration::from_secs(5), "{:?}", shown.elapsed());
    let agent = AgentDetail::from(&*running.show("one").await.unwrap());
    let told = (agent.links.pull_request, agent.links.pull_request_reason.as_deref());
    assert_eq!(told, (None, Some("the address is not an http or https address")));
    assert_eq!(agent.metadata["fleet_mcp_pull_request_url"], "no address at all");
    assert_eq!(
        agent.metadata["fleet_mcp_agent_spec"], agent.spec,
        "the spec of the call, not the echo of Coder"
    );
}

#[tokio::test]
async fn metadata_is_shown_from_every_source_and_never_when_sensitive() {
    let scene = ready().await;
    scene.coder.set_metadata("one", "8_pull_request_url", "https://forge.example/pr/7");
    scene.coder.set_metadata("one", "fleet_mcp_pull_request_status", "open");
    scene.coder.set_metadata("one", "fleet_mcp_pull_request_check_status", "n/a");
    scene.coder.set_resource_metadata("one", "fleet_mcp_ticket", "FLEET-1");
    scene.coder.set_sensitive_metadata("one", "fleet_mcp_password", "hunter2");
    eventually("the list carries the status", async || {
        let snapshot = scene.running.fleet.board().now();
        snapshot.by_name("one").unwrap().metadata_value("fleet_mcp_pull_request_status").is_some()
    })
    .await;
    let state = scene.running.show("one").await.unwrap();
    let shown: Vec<(&str, &str)> =
        state.metadata.iter().map(|(k, v)| (k.as_str(), v.value.as_str())).collect();
    let expected = [
        ("fleet_mcp_agent_spec", "## Objective\nFix the login bug"),
        ("fleet_mcp_pull_request_status", "open"),
        ("fleet_mcp_pull_request_url", "https://forge.example/pr/7"),
        ("fleet_mcp_ticket", "FLEET-1"),
    ];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_value_that_a_poll_has_replaced_is_not_shown_again() {
    let scene = ready().await;
    let status = "fleet_mcp_pull_request_status";
    let shown = async || scene.running.show("one").await.unwrap().metadata_value(status);
    scene.coder.set_metadata("one", status, "draft");
    eventually("the first value is shown", async || shown().await.as_deref() == Some("draft")).await;
    scene.coder.set_metadata("one", status, "open");
    eventually("a poll has the second value", async || {
        let snapshot = scene.running.fleet.board().now();
        snapshot.by_name("one").unwrap().metadata_value(status).as_deref() == Some("open")
    })
    .await;
    assert_eq!(shown().await.as_deref(), Some("open"));
}

#[tokio::test]
async fn a_list_shows_what_a_template_numbers_and_an_unchecked_address_says_so() {
    let scene = ready().await;
    let address = "https://no-such-forge.invalid/pr/7";
    scene.coder.set_metadata("one", "8_pull_request_url", address);
    eventually("the list carries the address", async || {
        let snapshot = scene.running.fleet.board().now();
        AgentRow::from(&**snapshot.by_name("one").unwrap()).pull_request_url.as_deref() == Some(address)
    })
    .await;
    let links = async || AgentDetail::from(&*scene.running.show("one").await.unwrap()).links;
    let unseen = links().await;
    let reason = "status unknown: not reported by the agent, no forge configured";
    assert_eq!(
        (unseen.pull_request.as_deref(), unseen.pull_request_reason.as_deref()),
        (Some(address), Some(reason))
    );
    scene.coder.set_metadata("one", "17_pull_request_status", "open");
    eventually("its state is known", async || links().await.pull_request_reason.is_none()).await;
}

#[tokio::test]
async fn a_value_that_is_set_stands_until_the_workspace_shows_another_one() {
    let scene = ready().await;
    let ticket = "fleet_mcp_ticket";
    let set = async |value: &str| {
        let (name, key) = (Some("one".to_owned()), MetadataKey::parse(ticket).unwrap());
        let request = SetMetadata { name, key, value: value.to_owned() };
        let state = scene.running.fleet.agent_metadata_set(&operator(), request).await.unwrap();
        state.metadata_value(ticket)
    };
    let shown = async || scene.running.show("one").await.unwrap().metadata_value(ticket);
    scene.coder.set_metadata("one", ticket, "A");
    assert_eq!(set("B").await.as_deref(), Some("B"));
    // A value that was read is kept for a while, so a second read happens after that.
    let n_reads = || {
        let reads = scene.coder.calls().into_iter().filter(|(call, _)| call.ends_with("/watch-metadata"));
        reads.map(|(_, n)| n).sum::<usize>()
    };
    let begun = n_reads();
    eventually("it was read again", async || {
        assert_eq!(shown().await.as_deref(), Some("B"));
        n_reads() > begun + 1
    })
    .await;
    scene.coder.set_metadata("one", ticket, "C");
    eventually("the newer value is seen", async || shown().await.as_deref() == Some("C")).await;
    assert_eq!(set("D").await.as_deref(), Some("D"));
    assert_eq!(shown().await.as_deref(), Some("D"));
}
