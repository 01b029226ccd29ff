//! What the server tells each kind of caller about itself: its own part, by the names of its own tools.

use fleet_mcp::app::agents::CreateAgent;
use fleet_mcp::mcp::tools::Toolsets;
use serde_json::{Value, json};

use super::client::{Era, Http};
use super::server::McpServer;
use crate::harness::{Pace, Scene, create_command, operator};

/// One agent for each kind of role, named by it, and the people.
const CALLERS: [&str; 8] = [
    "operator",
    "manager",
    "coding",
    "agent-coder",
    "agent-reviewer",
    "agent-planner",
    "agent-manager",
    "agent-operator",
];
/// What clients keep of it.
const MAX_CHARS: usize = 2_000;

async fn server(toolsets: Toolsets) -> McpServer {
    let server = McpServer::of(Scene::new(Pace::Instant).await, toolsets).await;
    for role in CALLERS.iter().filter_map(|caller| caller.strip_prefix("agent-")) {
        let command = CreateAgent { role: Some(role.to_owned()), ..create_command(role) };
        server.scene.running.fleet.agent_create(&operator(), command).await.unwrap();
    }
    server
}

async fn instructions(server: &McpServer, caller: &str, era: Era) -> String {
    let opening = era.opening();
    let client = Http::new(&server.url, caller, era);
    let answer = client.ask(opening["method"].as_str().unwrap(), opening["params"].clone()).await;
    answer["result"]["instructions"].as_str().unwrap_or_else(|| panic!("{caller}: {answer}")).to_owned()
}

async fn tools(server: &McpServer, caller: &str) -> Vec<String> {
    let answer = Http::new(&server.url, caller, Era::Stateless).ask("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The words of a text, of which tool names are some.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// The tools that the instructions name to a caller without them.
async fn foreign(server: &McpServer, everything: &[String], caller: &str) -> Vec<String> {
    let (own, told) = (tools(server, caller).await, instructions(server, caller, Era::Stateless).await);
    let named = words(&told).filter(|word| everything.iter().any(|tool| tool == word));
    named.filter(|word| !own.iter().any(|tool| tool == word)).map(str::to_owned).collect()
}

#[tokio::test]
async fn each_kind_of_caller_is_told_only_of_tools_it_has() {
    let server = server(Toolsets::all()).await;
    let mut everything = tools(&server, "operator").await;
    everything.extend(tools(&server, "agent-coder").await);
    for caller in CALLERS {
        assert_eq!(foreign(&server, &everything, caller).await, Vec::<String>::new(), "{caller}");
        let told = instructions(&server, caller, Era::Stateless).await;
        assert!(told.chars().count() <= MAX_CHARS, "{caller}: {}", told.chars().count());
        assert_eq!(told, instructions(&server, caller, Era::Sessions).await, "{caller}");
        let names_its_own = words(&told).any(|word| everything.iter().any(|tool| tool == word));
        assert!(names_its_own, "{caller} is told of no tool at all");
    }
    let squads = self::server(Toolsets::parse(&["squads".to_owned()]).unwrap()).await;
    for caller in CALLERS {
        assert_eq!(foreign(&squads, &everything, caller).await, Vec::<String>::new(), "{caller}");
    }
}

#[tokio::test]
async fn every_kind_of_caller_is_introduced_with_any_set_of_tools() {
    let fleet = "This server runs a fleet of coding agents.";
    let introductions = [
        ("operator", fleet),
        ("manager", fleet),
        ("coding", fleet),
        ("agent-coder", "You are a coding agent of a fleet."),
        ("agent-reviewer", "You are a review agent of a fleet."),
        ("agent-planner", "You are a planning agent of a fleet."),
        ("agent-manager", "You are an agent of a fleet that leads other agents."),
        ("agent-operator", "You are an agent of a fleet that leads other agents."),
    ];
    for toolset in ["fleet", "squads", "spawner", "reviews", "router"] {
        let server = self::server(Toolsets::parse(&[toolset.to_owned()]).unwrap()).await;
        for (caller, introduction) in introductions {
            let told = instructions(&server, caller, Era::Stateless).await;
            assert!(told.starts_with(introduction), "{toolset}, {caller}: {told}");
        }
    }
}

#[tokio::test]
async fn only_leading_callers_are_told_to_lead_and_every_agent_how_to_ask() {
    let server = server(Toolsets::all()).await;
    let mut told = Vec::new();
    for caller in CALLERS {
        let text = instructions(&server, caller, Era::Sessions).await;
        let leads = text.contains("create_agent");
        let asks = text.contains("report_status") && text.contains("question");
        told.push((caller, leads, asks));
    }
    let expected = [
        ("operator", true, false),
        ("manager", true, false),
        ("coding", false, false),
        ("agent-coder", false, true),
        ("agent-reviewer", false, true),
        ("agent-planner", false, true),
        ("agent-manager", true, true),
        ("agent-operator", true, true),
    ];
    assert_eq!(told, expected);
    let distinct: std::collections::BTreeSet<String> = {
        let mut texts = std::collections::BTreeSet::new();
        for caller in &CALLERS[..7] {
            texts.insert(instructions(&server, caller, Era::Sessions).await);
        }
        texts
    };
    assert_eq!(distinct.len(), 7, "each kind has a text of its own");
}

#[tokio::test]
async fn an_opening_without_a_caller_is_refused() {
    let server = server(Toolsets::all()).await;
    for era in [Era::Sessions, Era::Stateless] {
        let opening = era.opening();
        let client = Http::new(&server.url, "ghost", era);
        let answer: Value = client.ask(opening["method"].as_str().unwrap(), opening["params"].clone()).await;
        assert_eq!(answer["error"]["message"], "the request was not authenticated", "{answer}");
    }
}
