//! Arguments of `serve`, `up` and `local-coder`, carried out by whoever composes the program.

use std::net::IpAddr;

use clap::Args;

#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Port to listen on; 0 takes a free one [default: 3001]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,
}

#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub serve: ServeArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Debug, Clone, Args)]
pub struct LocalCoderArgs {
    /// Port to listen on; 0 takes the one of last time if it is free [default: 0]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Debug, Clone, Args)]
pub struct EngineArgs {
    /// What agents of the embedded Coder run, where their project names nothing else
    #[arg(long, value_name = "ENGINE", env = "ENGINE", default_value = "demo", hide_env_values = true)]
    pub engine: String,
}
