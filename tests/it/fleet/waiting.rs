//! Waiting for changes: nothing between two calls is missed, also across a restart.

use std::time::Duration;

use fleet_mcp::app::agents::{WaitAgents, WaitResult};
use fleet_mcp::app::error::Code;
use fleet_mcp::domain::agent::{AgentStatus, Until};

use crate::harness::{Pace, RunningFleet, Scene, operator};

fn wait(names: &[&str], until: Until, cursor: Option<i64>) -> WaitAgents {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    WaitAgents { names, until, timeout: Duration::from_secs(30), cursor }
}

fn rows(waited: &WaitResult) -> Vec<(String, Option<AgentStatus>, AgentStatus)> {
    let row = |changed: &fleet_mcp::app::agents::AgentChange| {
        (changed.agent.agent.name.to_string(), changed.previous_status, changed.agent.agent.sighting.status)
    };
    waited.changed.iter().map(row).collect()
}

async fn idle_scene() -> Scene {
    let scene = Scene::new(Pace::Instant).await;
    for name in ["one", "two"] {
        scene.running.create(name).await.unwrap();
        scene.running.becomes(name, AgentStatus::Idle).await;
    }
    scene.coder.set_pace(Pace::Held);
    scene
}

#[tokio::test]
async fn without_a_cursor_the_first_change_after_the_call_ends_the_wait() {
    let scene = idle_scene().await;
    let fleet = scene.running.fleet.clone();
    let waiting =
        tokio::spawn(
            async move { fleet.agent_wait(&operator(), wait(&["TWO"], Until::AnyChange, None)).await },
        );
    scene.coder.set_agent("one", "connected", "start_error");
    scene.running.becomes("one", AgentStatus::Failed).await;
    assert!(!waiting.is_finished());
    scene.coder.post_app_status("two", "working", "on it");
    let waited = waiting.await.unwrap().unwrap();
    assert_eq!(rows(&waited), [("two".to_owned(), Some(AgentStatus::Idle), AgentStatus::Busy)]);
    assert!(!waited.timed_out);
}

#[tokio::test]
async fn a_cursor_brings_what_happened_since_deletions_included_also_after_a_restart() {
    let scene = idle_scene().await;
    let cursor = scene.running.fleet.board().revision();
    scene.coder.set_agent("one", "connected", "start_error");
    scene.running.becomes("one", AgentStatus::Failed).await;
    scene.coder.set_pace(Pace::Instant);
    scene.running.delete("two").await.unwrap();
    scene.running.is_gone("two").await;
    let directory = scene.running.stop().await;
    let running = RunningFleet::start_in(directory, scene.coder.url(), &scene.coder.token()).await;
    let waited =
        running.fleet.agent_wait(&operator(), wait(&[], Until::AnyChange, Some(cursor))).await.unwrap();
    let mut statuses: Vec<(String, AgentStatus)> =
        rows(&waited).into_iter().map(|(name, _, now)| (name, now)).collect();
    statuses.sort();
    assert_eq!(statuses, [("one".to_owned(), AgentStatus::Failed), ("two".to_owned(), AgentStatus::Deleted)]);
    assert!(waited.cursor >= cursor);
}

#[tokio::test]
async fn until_idle_waits_for_every_agent_named() {
    let scene = idle_scene().await;
    for name in ["one", "two"] {
        scene.coder.post_app_status(name, "working", "on it");
        scene.running.becomes(name, AgentStatus::Busy).await;
    }
    let fleet = scene.running.fleet.clone();
    let waiting =
        tokio::spawn(
            async move { fleet.agent_wait(&operator(), wait(&["one", "two"], Until::Idle, None)).await },
        );
    scene.coder.post_app_status("one", "complete", "done");
    scene.running.becomes("one", AgentStatus::Idle).await;
    assert!(!waiting.is_finished());
    scene.coder.post_app_status("two", "complete", "done");
    let waited = waiting.await.unwrap().unwrap();
    assert_eq!(rows(&waited).len(), 2);
}

#[tokio::test]
async fn nothing_changed_is_said_at_the_end_of_the_wait_and_an_unknown_name_at_once() {
    let scene = idle_scene().await;
    let cursor = scene.running.fleet.board().revision();
    let short =
        WaitAgents { timeout: Duration::from_millis(50), ..wait(&["one"], Until::AnyChange, Some(cursor)) };
    let waited = scene.running.fleet.agent_wait(&operator(), short).await.unwrap();
    assert_eq!((waited.changed.len(), waited.cursor, waited.timed_out), (0, cursor, true));
    let error =
        scene.running.fleet.agent_wait(&operator(), wait(&["nobody"], Until::Idle, None)).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
}
