//! The `fleet-mcp` program: parses the command line and hands over to `cli`.

use std::process::ExitCode;

use fleet_mcp::cli::{Cli, Command, Exit, Extras, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Cli { globals, command } = Cli::parse();
    match command {
        Command::Serve(_) | Command::Stdio => {
            tracing::error!("not built in this branch");
            Exit::Failed.into()
        }
        Command::Client(command) => run(globals, command, Extras { openapi: || "{}".to_owned() }).await,
    }
}
