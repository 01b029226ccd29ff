//! `agents start`, `stop` and `restart`.

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::NameArg;
use crate::cli::client::{Body, Client};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::{Format, Screen};
use crate::cli::wording;
use crate::domain::name::AgentName;
use crate::view::agent::{AgentChanged, AgentList};
use crate::view::request::{ListAgentsInput, MAX_WAIT_SECONDS};

pub(super) const MAX_WAIT: i64 = MAX_WAIT_SECONDS;
/// The statuses that `--all` stops: running agents and those that are about to run.
const RUNNING: &str = "pending,starting,busy,idle";
const LARGEST_PAGE: i64 = 100;

#[derive(Debug, Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    agent: NameArg,
    #[command(flatten)]
    wait: WaitArg,
}

#[derive(Debug, Args)]
pub struct StopArgs {
    /// Name of the agent
    #[arg(value_name = "NAME", value_parser = AgentName::parse, required_unless_present = "all")]
    name: Option<AgentName>,
    /// Stop every running agent
    #[arg(long, conflicts_with = "name")]
    all: bool,
    #[command(flatten)]
    wait: WaitArg,
}

#[derive(Debug, Args)]
pub(super) struct WaitArg {
    /// Wait for completion, at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..=MAX_WAIT))]
    wait: i64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Start,
    Stop,
    Restart,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
        }
    }
}

pub(super) async fn run(
    client: &Client,
    change: Change,
    args: ChangeArgs,
    screen: &Screen,
) -> Result<Exit, CliError> {
    let name = args.agent.name.as_str();
    let body = ask(client, change, name, &args.wait).await?;
    screen.answer(&body, |changed: &AgentChanged| {
        print_result(changed, screen)?;
        screen.hint(&format!("fleet-mcp agents show {name} shows its progress"));
        Ok(())
    })?;
    Ok(Exit::Ok)
}

pub(super) async fn stop(client: &Client, args: StopArgs, screen: &Screen) -> Result<Exit, CliError> {
    match args.name {
        Some(name) => {
            let args = ChangeArgs { agent: NameArg { name }, wait: args.wait };
            run(client, Change::Stop, args, screen).await
        }
        None => stop_all(client, &args.wait, screen).await,
    }
}

/// The result of stopping all running agents.
#[derive(Debug, Default, Serialize)]
struct StopReport {
    stopped: Vec<Value>,
    failed: Vec<NotStopped>,
}

#[derive(Debug, Serialize)]
struct NotStopped {
    agent_name: String,
    error: Value,
}

/// A failure to stop one agent does not keep the others running.
async fn stop_all(client: &Client, wait: &WaitArg, screen: &Screen) -> Result<Exit, CliError> {
    let mut report = StopReport::default();
    for name in running(client).await? {
        match ask(client, Change::Stop, &name, wait).await {
            Ok(body) => {
                if screen.format == Format::People {
                    print_result(&body.read()?, screen)?;
                }
                report.stopped.push(body.read()?);
            }
            Err(error) => {
                if screen.format == Format::People {
                    let message = format!("agent '{name}' was not stopped: {}", error.message());
                    screen.complain(&message, &error.next_action());
                }
                let error = serde_json::from_str(&error.json()).map_err(CliError::Undecodable)?;
                report.failed.push(NotStopped { agent_name: name, error });
            }
        }
    }
    let StopReport { stopped, failed } = &report;
    match screen.format {
        Format::People => screen.hint(&format!("{} asked to stop, {} failed", stopped.len(), failed.len())),
        Format::Json => screen.json(&report)?,
    }
    Ok(if failed.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// All names are read before the first stop, since stopped agents change the pages.
async fn running(client: &Client) -> Result<Vec<String>, CliError> {
    let mut names = Vec::new();
    for page in 1.. {
        let query = ListAgentsInput {
            status_filter: Some(RUNNING.to_owned()),
            project_filter: None,
            role_filter: None,
            page,
            page_size: LARGEST_PAGE,
            include_runs: false,
        };
        let list: AgentList = client.get(&["agents"], &query).await?.read()?;
        names.extend(list.agents.into_iter().map(|agent| agent.name));
        if !list.paging.has_next_page {
            break;
        }
    }
    Ok(names)
}

async fn ask(client: &Client, change: Change, name: &str, wait: &WaitArg) -> Result<Body, CliError> {
    client.post(&["agents", name, change.word()], &json!({ "wait_seconds": wait.wait })).await
}

/// The message contains the agent's status.
fn print_result(changed: &AgentChanged, screen: &Screen) -> Result<(), CliError> {
    screen.line(&wording::for_operators(&changed.message))
}
