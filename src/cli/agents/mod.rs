//! `agents`: everything an operator does with agents.

mod change;
mod create;
mod delete;
mod follow;
mod history;
mod list;
mod logs;
mod prune;
mod show;
mod watch;

use clap::Subcommand;

use super::client::Client;
use super::error::CliError;
use super::exit::Exit;
use super::globals::Globals;
use super::screen::Screen;
use crate::domain::name::AgentName;

#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// List agents with their status and current task
    #[command(after_help = "Example:\n  fleet-mcp agents list --status busy,failed --watch")]
    List(list::ListArgs),
    /// Show all details of one agent
    #[command(after_help = "Example:\n  fleet-mcp agents show fix-login")]
    Show {
        #[command(flatten)]
        agent: NameArg,
    },
    /// Create an agent and assign its first task
    #[command(
        long_about = "Create an agent and assign its first task. On a terminal the command waits until the \
            agent is ready; otherwise it returns at once unless --wait is given.",
        after_help = "Example:\n  fleet-mcp agents create --project setup --spec 'Fix the login form' --name fix-login"
    )]
    Create(create::CreateArgs),
    /// Delete an agent and its workspace, saving unpushed work first
    #[command(after_help = "Example:\n  fleet-mcp agents delete fix-login --wait 45")]
    Delete(delete::DeleteArgs),
    /// Remove merged branches of deleted agents from a repository
    #[command(
        long_about = "Remove the branches fleet/* whose commits are all part of the branch that is checked \
            out. Branches of existing agents, unmerged branches and checked-out branches stay. The command \
            lists the branches first and removes nothing without confirmation.",
        after_help = "Example:\n  fleet-mcp agents prune --yes"
    )]
    Prune(prune::PruneArgs),
    /// Start a stopped agent
    #[command(after_help = "Example:\n  fleet-mcp agents start fix-login")]
    Start(change::ChangeArgs),
    /// Stop an agent, or all running agents
    #[command(after_help = "Example:\n  fleet-mcp agents stop --all")]
    Stop(change::StopArgs),
    /// Stop an agent and start it again
    #[command(after_help = "Example:\n  fleet-mcp agents restart fix-login --wait 45")]
    Restart(change::ChangeArgs),
    /// Show the tasks and reports of an agent, newest first
    #[command(after_help = "Example:\n  fleet-mcp agents history fix-login --kind task")]
    History(history::HistoryArgs),
    /// Show the messages to and from an agent
    #[command(after_help = "Example:\n  fleet-mcp agents logs fix-login --page-size 20")]
    Logs(logs::LogsArgs),
}

#[derive(Debug, clap::Args)]
pub struct NameArg {
    /// Name of the agent
    #[arg(value_name = "NAME", value_parser = AgentName::parse)]
    name: AgentName,
}

pub(super) async fn run(
    globals: &Globals,
    command: AgentsCommand,
    screen: &Screen,
) -> Result<Exit, CliError> {
    match command {
        AgentsCommand::List(args) if args.watch => watch::run(globals, args, screen).await,
        AgentsCommand::List(args) => list::run(&Client::connect(globals)?, args, screen).await,
        AgentsCommand::Show { agent } => show::run(&Client::connect(globals)?, &agent.name, screen).await,
        AgentsCommand::Create(args) => create::run(&Client::connect(globals)?, args, screen).await,
        AgentsCommand::Delete(args) => delete::run(globals, args, screen).await,
        AgentsCommand::Prune(args) => prune::run(&Client::connect(globals)?, args, screen).await,
        AgentsCommand::Start(args) => {
            change::run(&Client::connect(globals)?, change::Change::Start, args, screen).await
        }
        AgentsCommand::Restart(args) => {
            change::run(&Client::connect(globals)?, change::Change::Restart, args, screen).await
        }
        AgentsCommand::Stop(args) => change::stop(&Client::connect(globals)?, args, screen).await,
        AgentsCommand::Logs(args) => logs::run(&Client::connect(globals)?, args, screen).await,
        AgentsCommand::History(args) => history::run(&Client::connect(globals)?, args, screen).await,
    }
}
