//! What an agent has used is known while its turn runs, and not lost when it is deleted in the middle of it.

use serde_json::{Value, json};

use crate::harness::{Program, Up, eventually};

#[tokio::test]
async fn a_busy_agent_shows_what_it_has_used_and_it_counts_after_its_deletion() {
    let program = Program::without_coder();
    let up = Up::start(&program).await;
    let spec = "say some words\nsleep 600";
    up.post("/api/v1/agents", &json!({ "project": "setup", "spec": spec, "name": "otter" })).await;
    let published = || {
        let text = up.agent_file("otter", "metadata/fleet_mcp_usage").unwrap_or_default();
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        Some(record["input_tokens"].as_u64()? + record["output_tokens"].as_u64()?)
    };
    eventually("its turn has figures", async || published().is_some_and(|tokens| tokens > 0)).await;
    let tokens = published().unwrap();
    eventually("the fleet shows them while it works", async || {
        let shown = up.show("otter").await;
        (&shown["status"], &shown["usage"]["tokens"]) == (&json!("busy"), &json!(tokens))
    })
    .await;
    up.delete("otter", "&keep_work=false").await;
    assert_eq!(up.get("/api/v1/status").await["spend_today"], json!({ "usd": 0.0, "tokens": tokens }));
}
