//! `completions`: a script with which a shell completes our commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::error::CliError;
use super::exit::Exit;
use super::screen::Screen;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell the script is for
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs, screen: &Screen) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fleet-mcp", &mut script);
    screen.line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Ok)
}
