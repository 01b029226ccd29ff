//! `tasks cancel`: ends an agent's current task.

use clap::Args;
use serde_json::json;

use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::screen::Screen;
use crate::cli::wording;
use crate::domain::name::AgentName;
use crate::view::task::CanceledTask;

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Name of the agent
    #[arg(value_name = "NAME", value_parser = AgentName::parse)]
    name: AgentName,
    /// Also cancel the queued tasks
    #[arg(long)]
    all: bool,
    /// Stop the workspace if interrupt and signals have no effect
    #[arg(long)]
    escalate: bool,
}

pub(super) async fn run(client: &Client, args: CancelArgs, screen: &Screen) -> Result<Exit, CliError> {
    let query = json!({ "all": args.all, "escalate": args.escalate });
    let body = client.delete(&["agents", args.name.as_str(), "tasks"], &query).await?;
    screen.answer(&body, |canceled: &CanceledTask| {
        screen.line(&format!("{} ({})", wording::for_operators(&canceled.message), canceled.agent_status))?;
        screen.hint(&format!("step reached: {}", canceled.reached));
        Ok(())
    })?;
    Ok(Exit::Ok)
}
