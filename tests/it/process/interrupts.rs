//! A task that interrupts, over every surface of the real program.

use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

/// The id and message of an answer to `start_agent_task`.
fn told(answer: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    (text(&answer["task"]["id"]), text(&answer["message"]))
}

#[tokio::test]
async fn an_interrupt_is_the_same_over_rest_mcp_and_the_command_line() {
    let program = Program::without_coder().variable("ENGINE", "demo");
    let up = Up::start_here(&program).await;
    up.agent("one").await;
    for surface in ["REST", "MCP", "command line"] {
        let start = async |text: &str, when_busy: &str| {
            let mut body = json!({ "task_description": text, "when_busy": when_busy });
            match surface {
                "REST" => up.post("/api/v1/agents/one/tasks", &body).await,
                "MCP" => {
                    body["agent_name"] = json!("one");
                    let result = up.tool_as(&up.operator_token(), "start_agent_task", &body).await;
                    result["structuredContent"].clone()
                }
                _ => {
                    let start =
                        ["--json", "tasks", "start", "one", text, "--when-busy", when_busy, "--no-wait"];
                    program.json(&start).await
                }
            }
        };
        let (first, _) = told(&start("sleep 600", "reject").await);
        let (waiting, _) = told(&start("say waiting", "queue").await);
        let (urgent, message) = told(&start(&format!("say {surface}"), "interrupt").await);
        assert_eq!(message, "the task is being delivered to agent 'one'; it interrupts 2 tasks", "{surface}");
        let rows = async || {
            let page = up.get("/api/v1/agents/one/history?kind=task&page_size=3").await;
            let row = |row: &Value| (row["id"].clone(), row["state"].clone(), row["outcome"].clone());
            page["tasks"].as_array().unwrap().iter().rev().map(row).collect::<Vec<_>>()
        };
        eventually("the interrupt is done", async || {
            rows().await[2].1 == "done" && up.show("one").await["status"] == "idle"
        })
        .await;
        let by = format!("interrupted by task {urgent}");
        let dropped = format!("{by}; it had not been delivered yet");
        let rows = rows().await;
        assert!([json!(by), json!(dropped)].contains(&rows[0].2), "{surface}: {rows:?}");
        assert_eq!((&rows[0].0, &rows[0].1), (&json!(first), &json!("canceled")));
        assert_eq!(rows[1], (json!(waiting), json!("canceled"), json!(dropped)));
        assert_eq!(rows[2], (json!(urgent), json!("done"), json!(surface)));
    }
}
