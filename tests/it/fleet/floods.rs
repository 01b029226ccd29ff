//! Answers of Coder that are larger than we read: one workspace in them does not stop the fleet.

use fleet_mcp::domain::agent::AgentStatus;

use crate::harness::{Fault, Matches, Pace, Rule, Scene, When, eventually};

#[tokio::test]
async fn a_workspace_too_large_to_read_keeps_its_state_and_hinders_no_other_agent() {
    let scene = Scene::new(Pace::Instant).await;
    for name in ["huge", "one", "two"] {
        scene.running.create(name).await.unwrap();
        scene.running.becomes(name, AgentStatus::Idle).await;
    }
    let hits = ["/api/v2/workspaces", "/api/v2/workspaces/{id}"].map(|path| {
        let kind = Fault::Huge { name: "huge" };
        scene.coder.fault(Rule { matches: Matches::call("GET", path), when: When::Always, kind })
    });
    scene.running.stop_agent("one").await.unwrap();
    scene.running.becomes("one", AgentStatus::Stopped).await;
    scene.running.delete("two").await.unwrap();
    scene.running.is_gone("two").await;
    scene.running.create("three").await.unwrap();
    scene.running.becomes("three", AgentStatus::Idle).await;
    eventually("both calls were answered with too much", async || {
        hits.iter().all(|hits| scene.coder.fault_hits(*hits) > 0)
    })
    .await;
    assert_eq!(scene.running.status("huge"), Some(AgentStatus::Idle));
}
