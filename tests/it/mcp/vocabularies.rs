//! Arguments that take one word of a closed vocabulary: schemas list the domain's words, and so does the refusal of others.

use std::collections::BTreeMap;

use fleet_mcp::app::tasks::ReportedState;
use fleet_mcp::domain::agent::Until;
use fleet_mcp::domain::history::HistoryFilter;
use fleet_mcp::domain::run::RunStream;
use fleet_mcp::domain::task::WhenBusy;
use fleet_mcp::domain::word_enum::Vocabulary;
use serde_json::{Value, json};

use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::Pace;

/// Tool, argument, words, and the other arguments of a call that would succeed.
fn vocabularies() -> [(&'static str, &'static str, Vec<&'static str>, Value); 5] {
    let task = json!({ "agent_name": "one", "task_description": "x" });
    [
        ("wait_for_agents", "until", Until::words(), json!({ "timeout_seconds": 1 })),
        ("start_agent_task", "when_busy", WhenBusy::words(), task),
        ("show_agent_task_history", "kind", HistoryFilter::words(), json!({ "agent_name": "one" })),
        ("report_status", "state", ReportedState::words(), json!({ "summary": "x" })),
        ("squad_status", "stream", RunStream::words(), json!({})),
    ]
}

async fn server_with_an_agent() -> McpServer {
    let server = McpServer::start(Pace::Instant).await;
    server.scene.running.create("one").await.unwrap();
    server
}

/// Every list of words in the inputs of all tools.
async fn listed(server: &McpServer) -> BTreeMap<(String, String), Vec<String>> {
    let mut listed = BTreeMap::new();
    for token in ["operator", "agent-one"] {
        let answer = Http::new(&server.url, token, Era::Stateless).ask("tools/list", json!({})).await;
        for tool in answer["result"]["tools"].as_array().unwrap() {
            collect(tool["name"].as_str().unwrap(), "", &tool["inputSchema"], &mut listed);
        }
    }
    listed
}

fn collect(tool: &str, name: &str, schema: &Value, listed: &mut BTreeMap<(String, String), Vec<String>>) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(words)) = object.get("enum") {
                let words = words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                listed.insert((tool.to_owned(), name.to_owned()), words);
            }
            object.iter().for_each(|(name, inner)| collect(tool, name, inner, listed));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(tool, name, inner, listed)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn each_closed_vocabulary_is_listed_in_the_words_of_the_domain_and_no_other_is() {
    let server = server_with_an_agent().await;
    let expected = vocabularies().map(|(tool, name, words, _)| {
        ((tool.to_owned(), name.to_owned()), words.into_iter().map(str::to_owned).collect())
    });
    assert_eq!(listed(&server).await, BTreeMap::from(expected));
}

#[tokio::test]
async fn a_word_that_is_not_listed_is_refused_with_those_that_are() {
    let server = server_with_an_agent().await;
    for (tool, name, words, mut arguments) in vocabularies() {
        for (wrong, message) in [
            (json!("sometimes"), format!("{name} is one of {}", words.join(", "))),
            (json!(5), "invalid type: integer `5`, expected a string".to_owned()),
        ] {
            arguments[name] = wrong;
            let client = Http::new(&server.url, "agent-one", Era::Stateless);
            let error = client.call(tool, arguments.clone()).await["error"].clone();
            let told = (&error["code"], &error["message"], &error["details"]);
            assert_eq!(
                told,
                (&json!("INVALID_INPUT"), &json!(message), &json!({ "field": name })),
                "{tool}: {error}"
            );
        }
    }
}
