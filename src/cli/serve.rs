//! Arguments of `serve`, carried out by whoever composes the program.

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
