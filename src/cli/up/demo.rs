//! Creates three demo agents with different roles and tasks, and reports each as it becomes ready.

use std::collections::BTreeSet;

use super::{AgentHost, EngineProgram};
use crate::cli::CliError;
use crate::cli::client::Client;
use crate::cli::globals::Globals;
use crate::cli::screen::{Format, Screen};
use crate::cli::tone::Tone;
use crate::domain::agent::{AgentStatus, Until};
use crate::domain::text::{one_line, printable};
use crate::view::agent::{AgentRow, AgentsWaited};
use crate::view::request::{CreateAgentInput, OneOf, WaitInput};

/// A project whose agents start with an empty repository, so that none is needed here.
const PROJECT: &str = "setup";
/// Precedes every change.
const BEGINNING: &str = "0";
const LONGEST_CALL_SECONDS: i64 = 40;
const ALREADY_EXISTS: &str = "ALREADY_EXISTS";

/// One demo agent.
struct DemoAgent {
    name: &'static str,
    role: &'static str,
    /// Its work, in a few words.
    work: &'static str,
    spec: &'static str,
    /// The task as directives for the demo engine: one agent finishes soon, one works for a while, one asks.
    script: &'static str,
}

const DEMO_AGENTS: [DemoAgent; 3] = [
    DemoAgent {
        name: "demo-page",
        role: "frontend-developer",
        work: "writes a page that greets its reader",
        spec: "## Objective\nWrite index.html, a small page that greets its reader.\n\n## Context\nThe repository is new \
            and empty.\n\n## Constraints\nNo script, no frameworks.\n\n## Deliverables\nOne commit.\n",
        script: "say The page greets its reader.\ncommit Add a page that greets its reader\n",
    },
    DemoAgent {
        name: "demo-api",
        role: "backend-developer",
        work: "describes an API for greetings",
        spec: "## Objective\nDescribe a small HTTP API for greetings in API.md.\n\n## Context\nThe repository is new and \
            empty.\n\n## Constraints\nPlain Markdown.\n\n## Deliverables\nOne commit.\n",
        script: "say Thinking about the routes.\nsleep 60\ncommit Describe the API of greetings\n",
    },
    DemoAgent {
        name: "demo-tests",
        role: "qa-engineer",
        work: "plans the tests of the page",
        spec: "## Objective\nWrite TESTS.md: test cases for a page that greets its reader.\n\n## Context\n\
            The repository is new and empty.\n\n## Constraints\nAt most ten cases.\n\n## Deliverables\nOne commit, or one \
            question if something is unclear.\n",
        script: "ask Shall the page greet in one language or in many?\n",
    },
];

/// Creates the missing agents, then waits until each one is ready.
pub(super) async fn fill(globals: &Globals, host: &AgentHost, screen: &Screen) -> Result<(), CliError> {
    let client = Client::connect(globals)?;
    for agent in &DEMO_AGENTS {
        make(&client, &input(agent, host)).await?;
    }
    until_ready(&client, screen).await
}

async fn make(client: &Client, input: &CreateAgentInput) -> Result<(), CliError> {
    match client.post(&["agents"], input).await {
        // Created by an earlier `up --demo`.
        Err(CliError::Answered { body, .. }) if body.code == ALREADY_EXISTS => Ok(()),
        made => made.map(drop),
    }
}

fn input(agent: &DemoAgent, host: &AgentHost) -> CreateAgentInput {
    let is_scripted = matches!(host, AgentHost::Here { program: EngineProgram::Own { .. }, .. });
    let script = if is_scripted { agent.script } else { "" };
    CreateAgentInput {
        project: PROJECT.to_owned(),
        spec: format!("{}{script}", agent.spec),
        name: Some(agent.name.to_owned()),
        role: Some(agent.role.to_owned()),
        pull_request_url: None,
        request_key: None,
        wait_seconds: 0,
    }
}

async fn until_ready(client: &Client, screen: &Screen) -> Result<(), CliError> {
    let mut waiting: BTreeSet<String> = DEMO_AGENTS.iter().map(|agent| agent.name.to_owned()).collect();
    let mut cursor = BEGINNING.to_owned();
    while !waiting.is_empty() {
        let input = WaitInput {
            agent_names: waiting.iter().cloned().collect(),
            until: OneOf(Until::AnyChange),
            timeout_seconds: LONGEST_CALL_SECONDS,
            cursor: Some(cursor),
        };
        let waited: AgentsWaited = client.post(&["wait"], &input).await?.read()?;
        cursor = waited.cursor;
        for row in waited.changed.into_iter().map(|changed| changed.agent) {
            let is_moving = AgentStatus::parse(&row.status).is_some_and(AgentStatus::is_moving);
            if !is_moving && waiting.remove(&row.name) {
                print_result(&row, screen)?;
            }
        }
    }
    Ok(())
}

fn print_result(row: &AgentRow, screen: &Screen) -> Result<(), CliError> {
    if screen.format == Format::Json {
        return screen.json(row);
    }
    let is_ready = AgentStatus::parse(&row.status).is_some_and(AgentStatus::is_ready);
    let agent = DEMO_AGENTS.iter().find(|agent| agent.name == row.name).filter(|_| is_ready);
    let (word, rest) = match agent {
        Some(agent) => ("ready", agent.work.to_owned()),
        None => (row.status.as_str(), one_line(&row.reason)),
    };
    let word = Tone::of_check(is_ready).paint(word);
    screen.rendered(&format!("  {:<10} {word}  {}, {rest}", printable(&row.name), printable(&row.role)))
}
