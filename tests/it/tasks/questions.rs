//! A turn that ends with a question: who is told, on which surfaces, and what answers it.

use fleet_mcp::domain::agent::{AgentStatus, Attention};
use fleet_mcp::domain::task::TaskState;
use serde_json::{Value, json};

use crate::harness::{Crew, Program, Up, eventually};

const ASKED: &str = "ended with a question: Which colour shall it be?";

fn attention(crew: &Crew, name: &str) -> (AgentStatus, Attention, String) {
    let snapshot = crew.running.fleet.board().now();
    let sighting = &snapshot.by_name(name).unwrap().agent.sighting;
    (sighting.status, sighting.attention, sighting.reason.clone())
}

#[tokio::test]
async fn an_answer_that_ends_with_a_question_needs_input_until_the_next_task() {
    let crew = Crew::with("one").await;
    let asked = crew.give("one", "commit Paint it\nsay Which colour shall it be?").await;
    let asked = crew.ended(asked).await;
    assert_eq!(
        (asked.state(), asked.outcome(), asked.needs_answer()),
        (TaskState::Done, Some("Which colour shall it be?"), true)
    );
    let told = (AgentStatus::Idle, Attention::NeedsInput, ASKED.to_owned());
    eventually("the question is shown", async || attention(&crew, "one") == told).await;
    let answer = crew.give("one", "say Blue it is.").await;
    assert!(!crew.ended(answer).await.needs_answer());
    eventually("nothing is asked any more", async || attention(&crew, "one").1 == Attention::None).await;
}

/// The row of a list, or the entry of a status, that is about the agent.
fn about(rows: &Value, key: &str) -> (Value, Value) {
    let row = rows.as_array().unwrap().iter().find(|row| row[key] == "one");
    row.map(|row| (row["attention"].clone(), row["reason"].clone())).unwrap_or_default()
}

#[tokio::test]
async fn the_question_is_shown_on_every_surface() {
    let program = Program::without_coder().variable("ENGINE", "demo");
    let up = Up::start_here(&program).await;
    up.agent_with(json!({ "project": "setup", "name": "one", "spec": "say Which colour shall it be?" }))
        .await;
    let expected = (json!("needs_input"), json!(ASKED));
    eventually("the question is shown", async || {
        let shown = up.show("one").await;
        (shown["attention"].clone(), shown["reason"].clone()) == expected
    })
    .await;
    assert_eq!(about(&up.get("/api/v1/agents").await["agents"], "name"), expected);
    assert_eq!(about(&up.get("/api/v1/status").await["attention"], "agent"), expected);
    let token = up.operator_token();
    let listed = up.tool_as(&token, "list_agents", &json!({})).await;
    assert_eq!(about(&listed["structuredContent"]["agents"], "name"), expected);
    let status = up.tool_as(&token, "fleet_status", &json!({})).await["structuredContent"].clone();
    assert_eq!(about(&status["attention"], "agent"), expected);
    let next = status["attention"][0]["next_action"].as_str().unwrap();
    assert!(next.contains("start_agent_task"), "{next}");
    for command in [&["agents", "list"][..], &["agents", "show", "one"], &["status"]] {
        let output = program.run(command).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Tables cut what is longer than a column.
        assert!(
            text.contains("needs_input") && text.contains("ended with a question: Wh"),
            "{command:?}: {text}"
        );
    }
}
