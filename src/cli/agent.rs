//! Arguments of the commands that run inside a workspace, carried out by whoever composes the program.

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
