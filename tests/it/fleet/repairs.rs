//! Agents that cannot work although their build succeeded: shown as failed with a remedy, and repaired by a start.

use chrono::TimeDelta;
use fleet_mcp::app::fleet_status::Notice;
use fleet_mcp::app::tasks::StartTask;
use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::operation::OperationState;
use fleet_mcp::domain::task::{TaskState, WhenBusy};

use crate::harness::{AgentScript, Pace, Scene, eventually, operator};

async fn ready() -> Scene {
    let scene = Scene::new(Pace::Instant).await;
    scene.running.create("one").await.unwrap();
    scene.running.rests("one").await;
    scene
}

/// The agent's connection is lost for longer than it may be.
async fn lose(scene: &Scene) {
    scene.coder.disconnect("one");
    scene.coder.backdate("one", TimeDelta::seconds(31));
    scene.running.becomes("one", AgentStatus::Failed).await;
}

fn n_builds(scene: &Scene) -> usize {
    scene.coder.workspaces()[0].builds
}

async fn state_of_newest_operation(scene: &Scene) -> OperationState {
    let agent = scene.running.show("one").await.unwrap().agent.id;
    scene.running.store.operations_of(agent, 1).await.unwrap()[0].state()
}

#[tokio::test]
async fn an_agent_that_stays_disconnected_is_failed_with_attention_and_a_remedy() {
    let scene = ready().await;
    lose(&scene).await;
    let overview = scene.running.fleet.fleet_status(&operator()).await.unwrap();
    let expected = Notice {
        agent: scene.running.show("one").await.unwrap().agent.name.clone(),
        attention: Attention::Unreachable,
        reason: "the workspace agent is disconnected".to_owned(),
        next_action: "Call show_agent for 'one', then start_agent or delete_agent.".to_owned(),
    };
    assert_eq!(overview.attention, [expected]);
}

#[tokio::test]
async fn a_start_repairs_every_fault_that_keeps_a_built_agent_from_working() {
    let scene = ready().await;
    let words = [("disconnected", "ready"), ("timeout", "created"), ("connected", "start_error")];
    for (round, (status, lifecycle)) in words.into_iter().enumerate() {
        scene.coder.set_agent("one", status, lifecycle);
        scene.coder.backdate("one", TimeDelta::seconds(31));
        scene.running.becomes("one", AgentStatus::Failed).await;
        let started = scene.running.start_agent("one").await.unwrap();
        assert!(started.operation.is_some(), "{status}");
        scene.running.becomes("one", AgentStatus::Idle).await;
        eventually("the start is done", async || {
            state_of_newest_operation(&scene).await == OperationState::Done
        })
        .await;
        assert_eq!(n_builds(&scene), 3 + 2 * round, "one stop and one start: {status}");
    }
}

#[tokio::test]
async fn a_start_of_an_agent_that_is_away_for_a_moment_waits_until_it_is_back() {
    let scene = ready().await;
    scene.coder.disconnect("one");
    eventually("it is out of reach", async || {
        let state = scene.running.show("one").await.unwrap();
        state.agent.sighting.attention == Attention::Unreachable
    })
    .await;
    assert!(scene.running.start_agent("one").await.unwrap().operation.is_some());
    assert_eq!(state_of_newest_operation(&scene).await, OperationState::Pending);
    scene.coder.set_agent("one", "connected", "ready");
    eventually("the start is done", async || state_of_newest_operation(&scene).await == OperationState::Done)
        .await;
    assert_eq!(n_builds(&scene), 1);
}

#[tokio::test]
async fn tasks_of_a_failed_agent_show_and_what_waits_is_delivered_after_the_repair() {
    let scene = ready().await;
    let give = async |text: &str| {
        let request = StartTask {
            name: "one".to_owned(),
            description: text.to_owned(),
            when_busy: WhenBusy::Queue,
            timeout: None,
            request: None,
        };
        scene.running.fleet.task_start(&operator(), request).await.unwrap().task.id
    };
    scene.coder.set_agent_script("one", AgentScript::Work);
    let first = give("first").await;
    scene.running.works("one").await;
    let second = give("second").await;
    lose(&scene).await;
    let reason = scene.running.show("one").await.unwrap().agent.sighting.reason.clone();
    assert_eq!(reason, "the workspace agent is disconnected; its task has not ended");
    // The agent finished out of sight: its answer is found after the repair.
    scene.coder.agent_finishes("one", "the first is done");
    scene.coder.set_agent_script("one", AgentScript::Answer);
    scene.running.start_agent("one").await.unwrap();
    let state = async |task| scene.running.store.task_by_id(task).await.unwrap().unwrap().state();
    eventually("the first has ended", async || state(first).await.is_ended()).await;
    eventually("the second is done", async || state(second).await == TaskState::Done).await;
}
