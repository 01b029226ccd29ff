//! `tasks`: starts tasks of agents, waits for them, and cancels them.

mod cancel;
mod follow;
mod start;
mod wait;

use clap::Subcommand;

use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::Screen;

#[derive(Debug, Subcommand)]
pub enum TasksCommand {
    /// Assign a task to an agent
    #[command(
        long_about = "Assign a task to an agent. On a terminal the command waits until the task ends; \
            otherwise it returns at once unless --wait is given.",
        after_help = "Example:\n  fleet-mcp tasks start fix-login 'Add a test for the form' --when-busy queue"
    )]
    Start(start::StartArgs),
    /// Cancel the task an agent is working on
    #[command(after_help = "Example:\n  fleet-mcp tasks cancel fix-login --all")]
    Cancel(cancel::CancelArgs),
    /// Wait until agents have ended their tasks
    #[command(after_help = "Example:\n  fleet-mcp tasks wait fix-login --timeout 600")]
    Wait(wait::WaitArgs),
}

pub(super) async fn run(globals: &Globals, command: TasksCommand, screen: &Screen) -> Result<Exit, CliError> {
    let client = Client::connect(globals)?;
    match command {
        TasksCommand::Start(args) => start::run(&client, args, screen).await,
        TasksCommand::Cancel(args) => cancel::run(&client, args, screen).await,
        TasksCommand::Wait(args) => wait::run(&client, args, screen).await,
    }
}
