//! What tools/list shows to whom, and that it says what clients need to know.

use fleet_mcp::mcp::tools::Toolsets;
use serde_json::{Value, json};

use super::assert_snapshot;
use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::{Pace, Scene};

async fn tools(server: &McpServer, token: &str) -> Vec<Value> {
    let answer = Http::new(&server.url, token, Era::Stateless).ask("tools/list", json!({})).await;
    answer["result"]["tools"].as_array().unwrap().clone()
}

fn names(tools: &[Value]) -> Value {
    tools.iter().map(|tool| tool["name"].clone()).collect()
}

#[tokio::test]
async fn an_operator_sees_every_tool_of_the_contract() {
    let server = McpServer::start(Pace::Instant).await;
    assert_snapshot("tools_of_an_operator", &tools(&server, "operator").await.into());
}

#[tokio::test]
async fn others_see_only_what_they_may_call() {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.running.create("one").await.unwrap();
    let mut seen = json!({});
    for token in ["operator", "manager", "coding", "agent-one"] {
        seen[token] = names(&tools(&server, token).await);
    }
    assert_snapshot("tools_by_principal", &seen);
}

#[tokio::test]
async fn tool_list_is_marked_private_and_not_cacheable() {
    let server = McpServer::start(Pace::Instant).await;
    let answer = Http::new(&server.url, "manager", Era::Stateless).ask("tools/list", json!({})).await;
    assert_eq!((&answer["result"]["cacheScope"], &answer["result"]["ttlMs"]), (&json!("private"), &json!(0)));
}

#[tokio::test]
async fn names_are_short_and_schemas_plain() {
    let server = McpServer::start(Pace::Instant).await;
    for tool in tools(&server, "operator").await {
        assert!(tool["name"].as_str().unwrap().len() <= 40, "{tool}");
        assert_eq!(tool["annotations"]["openWorldHint"], false, "{tool}");
        for schema in [&tool["inputSchema"], &tool["outputSchema"]] {
            assert_eq!(schema["type"], "object", "{tool}");
            let text = schema.to_string();
            for unwanted in ["\"$ref\"", "\"$schema\"", "uint", "int64", "double"] {
                assert!(!text.contains(unwanted), "{unwanted} in {text}");
            }
            let properties = schema["properties"].as_object().unwrap().values();
            assert!(properties.into_iter().all(Value::is_object), "{text}");
        }
    }
}

#[tokio::test]
async fn a_toolset_that_is_switched_off_can_be_neither_seen_nor_called() {
    let toolsets = Toolsets::parse(&["squads".to_owned()]).unwrap();
    let server = McpServer::of(Scene::new(Pace::Instant).await, toolsets).await;
    let squads = json!(["list_roles", "start_squad_members", "squad_status"]);
    assert_eq!(names(&tools(&server, "operator").await), squads);
    let client = Http::new(&server.url, "operator", Era::Sessions);
    let answer = client.ask("tools/call", json!({ "name": "list_agents", "arguments": {} })).await;
    assert_eq!(answer["error"]["code"], -32602);
    let unknown = Toolsets::parse(&["fleets".to_owned()]).unwrap_err().to_string();
    let expected = "'fleets' is not a toolset; there are: fleet, squads; spawner, reviews and router are accepted and \
                    have no tools yet";
    assert_eq!(unknown, expected);
}

#[tokio::test]
async fn both_eras_open_with_the_same_name_and_instructions() {
    let server = McpServer::start(Pace::Instant).await;
    let mut opened = Vec::new();
    for era in [Era::Sessions, Era::Stateless] {
        let client = Http::new(&server.url, "manager", era);
        let message = era.opening();
        let answer = client.ask(message["method"].as_str().unwrap(), message["params"].clone()).await;
        opened.push(answer["result"].clone());
    }
    assert_eq!(opened[0]["instructions"], opened[1]["instructions"]);
    let named = json!({ "name": "fleet", "version": env!("CARGO_PKG_VERSION") });
    assert_eq!(opened[0]["serverInfo"], named);
    assert_eq!(opened[1]["_meta"]["io.modelcontextprotocol/serverInfo"], named);
    assert_eq!(opened[0]["protocolVersion"], "2025-06-18");
}
