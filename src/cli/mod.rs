//! The command line: one file per command group, a REST client of the running server.
//!
//! Commands that serve, bridge or run inside a workspace are only parsed here; `main` carries them out. Every other
//! command is a [`ClientCommand`] and goes to [`run`]. `enclose` is parsed by itself, see [`EncloseArgs`].

mod age;
mod agent;
mod agents;
mod audit;
mod catalog;
mod client;
mod completions;
mod connect;
mod data_files;
mod doctor;
mod down;
mod error;
mod events;
mod exit;
mod fields;
mod git;
mod globals;
mod json;
mod operations;
mod paging;
mod rescue;
mod screen;
mod serve;
mod server_file;
mod squad;
mod status;
mod stdio;
mod table;
mod tasks;
mod text_file;
mod token;
mod tone;
mod up;
mod usage;
mod word;
mod wording;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use agent::{AgentArgs, DemoEngineArgs, EncloseArgs};
pub use error::CliError;
pub use exit::Exit;
pub use globals::{Globals, LogLevel};
use screen::Screen;
pub use serve::{DeployedArgs, EngineArgs, LocalCoderArgs, ServeArgs, StdioArgs, UpArgs};
pub use server_file::ServerFile;
pub use stdio::RoleToken;
pub use up::{AgentHost, Demo, EngineProgram, UpReport, greet};

/// Run a fleet of coding agents in Coder workspaces
#[derive(Debug, Parser)]
#[command(
    name = "fleet-mcp",
    version,
    long_about = "Run a fleet of coding agents in Coder workspaces.\n\n\
        To begin: 'fleet-mcp up' runs everything, 'fleet-mcp doctor' reports what is missing, and \
        'fleet-mcp agents create' creates the first agent.",
    after_help = "Example:\n  fleet-mcp agents list --watch",
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything on this machine: the server, and an embedded Coder unless CODER_URL is set
    #[command(after_help = "Example:\n  fleet-mcp up --demo")]
    Up(UpArgs),
    /// Run the server on the Coder deployment that CODER_URL names
    #[command(after_help = "Example:\n  CODER_URL=https://coder.example fleet-mcp serve --port 3001")]
    Serve(DeployedArgs),
    /// Speak MCP on standard input and output, as a bridge to the server
    #[command(after_help = "Example:\n  fleet-mcp stdio --as-role reviewer")]
    Stdio(StdioArgs),
    /// Run the embedded Coder alone, for tests against a Coder
    #[command(after_help = "Example:\n  fleet-mcp local-coder --data-dir ./coder --port 7080")]
    LocalCoder(LocalCoderArgs),
    /// Run the agent of a workspace: serve AgentAPI and run the engine once per message
    #[command(
        hide = true,
        long_about = "Run the agent of a workspace: serve AgentAPI and run the engine once per message.\n\n\
            The embedded Coder starts it in every workspace; your own template can start it too. It reads \
            FLEET_ENGINE (required), FLEET_AGENT_SOCKET, FLEET_AGENT_DIR (default ~/.fleet), FLEET_GENERATION, \
            FLEET_APP_SLUG, FLEET_INTERRUPT_MS, FLEET_TERMINATE_MS, CODER_AGENT_URL, CODER_AGENT_TOKEN and \
            CODER_WORKSPACE_NAME, and works in the current directory.",
        after_help = "Example:\n  FLEET_ENGINE=demo fleet-mcp agent --port 3284"
    )]
    Agent(AgentArgs),
    /// Run the demo engine: obey the message on standard input
    #[command(hide = true, after_help = "Example:\n  echo 'say hello' | fleet-mcp demo-engine")]
    DemoEngine(DemoEngineArgs),
    #[command(flatten)]
    Client(ClientCommand),
}

/// What the running server is asked for, or what needs none.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Stop the server of this data directory; agents of the embedded Coder stop too, all others keep running
    #[command(after_help = "Example:\n  fleet-mcp down")]
    Down,
    /// List, create, change and delete agents
    #[command(subcommand, after_help = "Example:\n  fleet-mcp agents list --status busy,failed")]
    Agents(agents::AgentsCommand),
    /// Assign tasks to agents, wait for them, cancel them
    #[command(
        subcommand,
        after_help = "Example:\n  fleet-mcp tasks start fix-login 'Add a test for the form'"
    )]
    Tasks(tasks::TasksCommand),
    /// Run members of different roles, each once on its own task
    #[command(subcommand, after_help = "Example:\n  fleet-mcp squad run qa-engineer='Run the tests'")]
    Squad(squad::SquadCommand),
    /// Show the whole fleet: counts, builds, Coder, and agents that need attention
    #[command(after_help = "Example:\n  fleet-mcp status")]
    Status,
    /// List the roles an agent can have
    #[command(after_help = "Example:\n  fleet-mcp roles --project setup")]
    Roles(catalog::RolesArgs),
    /// List the projects that agents can work in
    #[command(after_help = "Example:\n  fleet-mcp projects")]
    Projects,
    /// Check this machine and the server, and print a remedy for each problem
    #[command(after_help = "Example:\n  fleet-mcp doctor")]
    Doctor,
    /// Add this fleet to the configuration of an MCP client; the rest of the file stays
    #[command(after_help = "Example:\n  fleet-mcp connect claude")]
    Connect(connect::ConnectArgs),
    /// Create, list and revoke access tokens
    #[command(
        subcommand,
        after_help = "Example:\n  fleet-mcp token create --kind manager --name ci --expires 8h"
    )]
    Token(token::TokenCommand),
    /// List and restore the unpushed work of deleted agents
    #[command(subcommand, after_help = "Example:\n  fleet-mcp rescue list")]
    Rescue(rescue::RescueCommand),
    /// List or cancel running operations on agents
    #[command(subcommand, after_help = "Example:\n  fleet-mcp operations list")]
    Operations(operations::OperationsCommand),
    /// Show the audit trail, newest first, including refused calls
    #[command(after_help = "Example:\n  fleet-mcp audit --page-size 20")]
    Audit(audit::AuditArgs),
    /// Print the OpenAPI document of the REST API
    #[command(after_help = "Example:\n  fleet-mcp openapi > fleet.json")]
    Openapi,
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  fleet-mcp completions bash > ~/.local/share/bash-completion/completions/fleet-mcp"
    )]
    Completions(completions::CompletionsArgs),
}

/// Functions of layers that the CLI may not import.
#[derive(Debug, Clone, Copy)]
pub struct Extras {
    pub openapi: fn() -> String,
}

impl Cli {
    /// Parses the arguments of this process; help, version and errors exit as usual.
    pub fn parse() -> Self {
        <Self as Parser>::parse()
    }
}

/// Executes one command and returns its exit code; errors go to standard error.
pub async fn run(globals: Globals, command: ClientCommand, extras: Extras) -> ExitCode {
    let screen = Screen::of_process(globals.json);
    match dispatch(&globals, command, extras, &screen).await {
        Ok(exit) => exit.into(),
        Err(error) => screen.fail(&error).into(),
    }
}

async fn dispatch(
    globals: &Globals,
    command: ClientCommand,
    extras: Extras,
    screen: &Screen,
) -> Result<Exit, CliError> {
    match command {
        ClientCommand::Down => down::run(globals, screen).await,
        ClientCommand::Agents(command) => agents::run(globals, command, screen).await,
        ClientCommand::Tasks(command) => tasks::run(globals, command, screen).await,
        ClientCommand::Squad(command) => squad::run(globals, command, screen).await,
        ClientCommand::Status => status::run(globals, screen).await,
        ClientCommand::Roles(args) => catalog::roles(globals, args, screen).await,
        ClientCommand::Projects => catalog::projects(globals, screen).await,
        ClientCommand::Doctor => doctor::run(globals, screen).await,
        ClientCommand::Connect(args) => connect::run(globals, args, screen).await,
        ClientCommand::Token(command) => token::run(globals, command, screen).await,
        ClientCommand::Rescue(command) => rescue::run(globals, command, screen).await,
        ClientCommand::Operations(command) => operations::run(globals, command, screen).await,
        ClientCommand::Audit(args) => audit::run(globals, args, screen).await,
        ClientCommand::Openapi => screen.line(&(extras.openapi)()).map(|()| Exit::Ok),
        ClientCommand::Completions(args) => completions::run(&args, screen),
    }
}

/// The path of this program, by which other programs can start it.
fn own_program() -> Result<PathBuf, CliError> {
    std::env::current_exe().ok().filter(|program| program.is_file()).ok_or(CliError::NoProgram)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
