//! Arguments of the commands that run inside a workspace; `main` carries them out.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// Listen on this port of 127.0.0.1 instead of the socket named by FLEET_AGENT_SOCKET
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
}

#[derive(Debug, Clone, Args)]
pub struct DemoEngineArgs {
    /// Be the process that the directive 'fork' leaves behind
    #[arg(long)]
    pub linger: bool,
}

#[derive(Debug, Clone, Args)]
pub struct EncloseArgs {
    /// Hide this directory
    #[arg(long, value_name = "DEVICE:INODE:DIR")]
    pub hide: Vec<OsString>,
    /// Leave this directory below a hidden one as it is
    #[arg(long, value_name = "DIR")]
    pub keep: Vec<PathBuf>,
    /// Keep this directory or file from being changed
    #[arg(long, value_name = "PATH")]
    pub read_only: Vec<PathBuf>,
    /// Keep this path from being led elsewhere
    #[arg(long, value_name = "PATH")]
    pub pin: Vec<PathBuf>,
    /// Hide the terminals of others
    #[arg(long)]
    pub own_terminals: bool,
    /// Give the command a PID namespace of its own
    #[arg(long)]
    pub own_processes: bool,
    /// Start the command among the processes of the workspace that this process encloses
    #[arg(long, value_name = "PID:START", conflicts_with = "own_processes")]
    pub join: Option<String>,
    /// Hide nothing and only enter the directory
    #[arg(long, conflicts_with_all = ["hide", "own_terminals", "own_processes", "join"])]
    pub no_walls: bool,
    /// Work in this directory, as it is found behind the walls
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Be the first process of a PID namespace as long as this pipe has a writer
    #[arg(long, value_name = "FD", conflicts_with_all = ["own_processes", "join", "lead_terminal"])]
    pub init: Option<i32>,
    /// Become the command as the leader of a session on the terminal that is standard input
    #[arg(long, conflicts_with_all = ["own_processes", "join"])]
    pub lead_terminal: bool,
    /// Tell the kernel that this process keeps the users of the machine, once a line comes on standard input
    #[arg(long, value_name = "PID", conflicts_with_all = ["hide", "keep", "read_only", "command"])]
    pub map_users: Option<u32>,
    /// The command to become; without one, only try
    #[arg(last = true)]
    pub command: Vec<OsString>,
}
