//! `agents start`, `stop` and `restart`.

use clap::Args;
use serde_json::{Value, json};

use super::NameArg;
use crate::cli::client::{Body, Client};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::json;
use crate::cli::screen::{Format, Screen};
use crate::domain::name::AgentName;
use crate::view::agent::{AgentChanged, AgentList};
use crate::view::request::{ListAgentsInput, MAX_WAIT_SECONDS};

pub(super) const MAX_WAIT: i64 = MAX_WAIT_SECONDS;
/// What `--all` stops: everything that runs or is about to.
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
    /// Stop every agent that runs
    #[arg(long, conflicts_with = "name")]
    all: bool,
    #[command(flatten)]
    wait: WaitArg,
}

#[derive(Debug, Args)]
pub(super) struct WaitArg {
    /// Wait at most so many seconds for it to be done
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
        tell(changed, screen)?;
        screen.hint(&format!("fleet-mcp agents show {name} tells how it goes on"));
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

/// One agent that cannot be stopped does not keep the others running.
async fn stop_all(client: &Client, wait: &WaitArg, screen: &Screen) -> Result<Exit, CliError> {
    let (mut stopped, mut failed) = (Vec::new(), Vec::new());
    for name in running(client).await? {
        let outcome = ask(client, Change::Stop, &name, wait).await;
        if screen.format == Format::People {
            tell_outcome(&outcome, screen)?;
        }
        match outcome {
            Ok(body) => stopped.push(body.read::<Value>()?),
            Err(error) => failed.push(error.value()),
        }
    }
    let exit = if failed.is_empty() { Exit::Ok } else { Exit::Failed };
    match screen.format {
        Format::People => screen.hint(&format!("{} asked to stop, {} failed", stopped.len(), failed.len())),
        Format::Json => {
            screen.line(&json::pretty(&json!({ "stopped": stopped, "failed": failed }).to_string()))?;
        }
    }
    Ok(exit)
}

fn tell_outcome(outcome: &Result<Body, CliError>, screen: &Screen) -> Result<(), CliError> {
    match outcome {
        Ok(body) => tell(&body.read()?, screen),
        Err(error) => {
            screen.complain(error);
            Ok(())
        }
    }
}

/// All names are read before the first stop, since stopping moves agents from page to page.
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

fn tell(changed: &AgentChanged, screen: &Screen) -> Result<(), CliError> {
    screen.line(&format!("{} ({})", changed.message, changed.agent.status))
}
