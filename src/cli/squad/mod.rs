//! `squad`: runs members of different roles once each, and shows their results.

mod run;
mod show;
mod status;

use clap::Subcommand;

use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::Screen;

#[derive(Debug, Subcommand)]
pub enum SquadCommand {
    /// Run members of different roles, each once on its own task
    #[command(after_help = "Example:\n  \
        fleet-mcp squad run qa-engineer='Run the tests' reviewer='Read the newest commit'")]
    Run(run::RunArgs),
    /// Show a squad, the output of a member, or all running work
    #[command(after_help = "Example:\n  fleet-mcp squad status SQUAD --member MEMBER --stream stderr")]
    Status(status::StatusArgs),
    /// List the roles of squad members
    #[command(after_help = "Example:\n  fleet-mcp squad roles")]
    Roles,
}

pub(super) async fn run(globals: &Globals, command: SquadCommand, screen: &Screen) -> Result<Exit, CliError> {
    let client = Client::connect(globals)?;
    match command {
        SquadCommand::Run(args) => run::run(&client, args, screen).await,
        SquadCommand::Status(args) => status::run(&client, args, screen).await,
        SquadCommand::Roles => show::roles(&client, screen).await,
    }
}
