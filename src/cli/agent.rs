//! Arguments of the commands that run inside a workspace, carried out by whoever composes the program.

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
    /// Hide this directory or file
    #[arg(long, value_name = "PATH")]
    pub hide: Vec<PathBuf>,
    /// Leave this directory below a hidden one as it is
    #[arg(long, value_name = "DIR")]
    pub keep: Vec<PathBuf>,
    /// Hide the terminals of others
    #[arg(long)]
    pub own_terminals: bool,
    /// Tell the kernel that this process keeps the users of the machine, once a line comes on standard input
    #[arg(long, value_name = "PID", conflicts_with_all = ["hide", "keep", "command"])]
    pub map_users: Option<u32>,
    /// The command to become; without one, only try
    #[arg(last = true)]
    pub command: Vec<OsString>,
}
