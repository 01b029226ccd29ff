//! `agents delete`: asks once, then deletes the agent and its workspace.

use clap::Args;
use serde_json::json;

use super::NameArg;
use super::change::MAX_WAIT;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::globals::Globals;
use crate::cli::screen::Screen;
use crate::cli::wording;
use crate::domain::name::AgentName;
use crate::view::agent::AgentDeleted;

#[derive(Debug, Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    agent: NameArg,
    /// Do not try to save unpushed work
    #[arg(long)]
    discard_work: bool,
    /// Wait until the workspace is deleted, at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..=MAX_WAIT))]
    wait: i64,
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    yes: bool,
}

pub(super) async fn run(globals: &Globals, args: DeleteArgs, screen: &Screen) -> Result<Exit, CliError> {
    let client = Client::connect(globals)?;
    let name = &args.agent.name;
    if !args.yes && !confirmed(name, screen)? {
        screen.hint("nothing was deleted");
        return Ok(Exit::Failed);
    }
    let query = json!({ "keep_work": !args.discard_work, "wait_seconds": args.wait });
    let body = client.delete(&["agents", name.as_str()], &query).await?;
    screen.answer(&body, |deleted: &AgentDeleted| {
        screen.line(&wording::for_operators(&deleted.message))?;
        if let Some(rescued) = &deleted.rescued {
            screen.hint(&format!("unpushed work is saved in {}", rescued.path));
            screen.hint(&format!("fleet-mcp rescue restore {} restores it as a branch", rescued.id));
        }
        Ok(())
    })?;
    Ok(Exit::Ok)
}

fn confirmed(name: &AgentName, screen: &Screen) -> Result<bool, CliError> {
    screen.confirmed(&format!("Delete agent '{name}' and its workspace?"), || {
        CliError::usage(
            format!("deleting '{name}' needs confirmation, and there is no terminal"),
            "Add -y to delete without confirmation.",
        )
    })
}
