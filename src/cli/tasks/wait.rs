//! `tasks wait`: returns when agents have ended their tasks.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::follow::until_done;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::{Format, Screen};
use crate::domain::name::AgentName;

#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Names of agents; all of them if left out
    #[arg(value_name = "NAME", value_parser = AgentName::parse)]
    names: Vec<AgentName>,
    /// Wait at most so many seconds; without end if left out
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
}

pub(super) async fn run(client: &Client, args: WaitArgs, screen: &Screen) -> Result<Exit, CliError> {
    let names: Vec<String> = args.names.iter().map(ToString::to_string).collect();
    let longest = args.timeout.map(|seconds| Duration::from_secs(seconds.into()));
    let done = until_done(client, &names, longest, screen).await?;
    match (screen.format, &done) {
        (Format::Json, Some(agents)) => screen.json(&json!({ "agents": agents, "timed_out": false }))?,
        (Format::Json, None) => screen.json(&json!({ "agents": [], "timed_out": true }))?,
        (Format::People, Some(agents)) => {
            for agent in agents {
                let state = agent.last_task.as_ref().map_or("no task", |task| task.state.as_str());
                screen.line(&format!("{}: {} ({state})", agent.name, agent.status))?;
            }
        }
        (Format::People, None) => screen.line("the time is over, and some are still at work")?,
    }
    Ok(if done.is_some() { Exit::Ok } else { Exit::Unavailable })
}
