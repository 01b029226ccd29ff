//! `tasks wait`: returns once agents have ended their tasks.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::follow::{condition, is_settled, until_done};
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::{Format, Screen};
use crate::domain::agent::{AgentStatus, Attention};
use crate::domain::name::AgentName;
use crate::view::agent::AgentRow;

#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Names of agents; all if omitted
    #[arg(value_name = "NAME", value_parser = AgentName::parse)]
    names: Vec<AgentName>,
    /// Wait at most this many seconds; without limit if omitted
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
}

pub(super) async fn run(client: &Client, args: WaitArgs, screen: &Screen) -> Result<Exit, CliError> {
    let names: Vec<String> = args.names.iter().map(ToString::to_string).collect();
    let longest = args.timeout.map(|seconds| Duration::from_secs(seconds.into()));
    let waited = until_done(client, &names, longest, screen).await?;
    let is_over = waited.timed_out;
    // Without names the server also lists the agents that were deleted before.
    let is_asked = |agent: &AgentRow| !names.is_empty() || agent.status != AgentStatus::Deleted.word();
    let agents: Vec<AgentRow> =
        waited.changed.into_iter().map(|changed| changed.agent).filter(is_asked).collect();
    match screen.format {
        Format::Json => screen.json(&json!({ "agents": agents, "timed_out": is_over }))?,
        Format::People => print_result(&agents, is_over, screen)?,
    }
    Ok(if is_over { Exit::Unavailable } else { Exit::Ok })
}

fn print_result(agents: &[AgentRow], is_over: bool, screen: &Screen) -> Result<(), CliError> {
    for agent in agents {
        screen.line(&summary(agent))?;
    }
    if is_over {
        screen.line("timed out: some agents are still working")?;
    }
    if agents.iter().any(|agent| agent.attention != Attention::None.word()) {
        screen.hint("fleet-mcp status shows what to do");
    }
    Ok(())
}

/// What came of the last task; while another one is open or the agent needs attention, that.
fn summary(agent: &AgentRow) -> String {
    if !is_settled(agent) {
        return condition(agent);
    }
    let state = agent.last_task.as_ref().map_or("no task", |task| task.state.as_str());
    format!("{}: {} ({state})", agent.name, agent.status)
}
