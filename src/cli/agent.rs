//! Arguments of the commands that run inside a workspace; `main` carries them out.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser};

#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// Listen on this port of 127.0.0.1 instead of the socket named by FLEET_AGENT_SOCKET
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
}

#[derive(Debug, Clone, Args)]
pub struct DemoEngineArgs {
    /// Run as the process that the directive 'fork' leaves behind
    #[arg(long)]
    pub linger: bool,
}

// No command of `Cli`: it starts with every command in a workspace, and parsing that whole command line would take most
// of the time.
/// Execute a command that can see only the listed parts of the fleet's data
#[derive(Debug, Clone, Parser)]
#[command(
    name = "fleet-mcp enclose",
    bin_name = "fleet-mcp enclose",
    after_help = "Example:\n  fleet-mcp enclose --hide 2049:2:/data --keep /data/a -- ls /data"
)]
pub struct EncloseArgs {
    /// Hide this directory
    #[arg(long, value_name = "DEVICE:INODE:DIR")]
    pub hide: Vec<OsString>,
    /// Keep this directory below a hidden one visible
    #[arg(long, value_name = "DIR")]
    pub keep: Vec<PathBuf>,
    /// Make this directory or file read-only
    #[arg(long, value_name = "PATH")]
    pub read_only: Vec<PathBuf>,
    /// Protect this path against renames and replacement
    #[arg(long, value_name = "PATH")]
    pub pin: Vec<PathBuf>,
    /// Hide the terminals of other processes
    #[arg(long)]
    pub own_terminals: bool,
    /// Give the command a PID namespace of its own
    #[arg(long)]
    pub own_processes: bool,
    /// Start the command in the namespaces of this process, which encloses the workspace
    #[arg(long, value_name = "PID:START", conflicts_with = "own_processes")]
    pub join: Option<String>,
    /// Hide nothing and only enter the directory
    #[arg(long, conflicts_with_all = ["hide", "own_terminals", "own_processes", "join"])]
    pub no_walls: bool,
    /// Work in this directory, as seen inside the enclosure
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Run as the first process of a PID namespace while this pipe has a writer
    #[arg(long, value_name = "FD", conflicts_with_all = ["own_processes", "join", "lead_terminal"])]
    pub init: Option<i32>,
    /// Run the command as session leader on the terminal at standard input
    #[arg(long, conflicts_with_all = ["own_processes", "join"])]
    pub lead_terminal: bool,
    /// Write this process's user map to the kernel once a line arrives on standard input
    #[arg(long, value_name = "PID", conflicts_with_all = ["hide", "keep", "read_only", "command"])]
    pub map_users: Option<u32>,
    /// The command to execute; without one, only test the enclosure
    #[arg(last = true)]
    pub command: Vec<OsString>,
}

impl EncloseArgs {
    /// Parses a command line from its word `enclose` on; ends the process with a message on a usage error.
    pub fn of_words(words: impl Iterator<Item = OsString>) -> Self {
        <Self as Parser>::parse_from(words)
    }
}
