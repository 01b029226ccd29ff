//! Arguments of `serve`, `up`, `stdio` and `local-coder`; `main` carries them out.

use std::net::IpAddr;

use clap::Args;

#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Port to listen on; 0 chooses a free one [default: 3001]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
}

/// Of a server that brings no Coder of its own.
#[derive(Debug, Clone, Args)]
pub struct DeployedArgs {
    #[command(flatten)]
    pub serve: ServeArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub serve: ServeArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    /// Create three demo agents; they run the scripted demo engine unless --engine is given
    #[arg(long)]
    pub demo: bool,
}

#[derive(Debug, Clone, Args)]
pub struct StdioArgs {
    /// Act with the rights of this role instead of a manager's (see 'fleet-mcp roles')
    #[arg(long, value_name = "ROLE")]
    pub as_role: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct LocalCoderArgs {
    /// Port to listen on; 0 chooses the last one used, if it is free [default: 0]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Debug, Clone, Args)]
pub struct EngineArgs {
    /// Engine of agents whose project and workspace set none [default: auto]
    #[arg(long, value_name = "ENGINE", env = "ENGINE", hide_env_values = true)]
    pub engine: Option<String>,
}
