//! The `fleet-mcp` program: reads the command line and hands over to `boot` or `cli`.

use std::process::ExitCode;

use fleet_mcp::boot::{self, BootError};
use fleet_mcp::cli::{self, Cli, Command, Exit, Extras, Globals, ServeArgs};
use fleet_mcp::config::{Environment, Flags, Settings};
use fleet_mcp::{telemetry, web};
use secrecy::SecretString;

fn main() -> ExitCode {
    let Cli { globals, command } = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&anyhow::Error::new(error).context("cannot start the runtime")),
    };
    runtime.block_on(async {
        match command {
            Command::Serve(arguments) => finish(serve(&globals, &arguments).await),
            Command::Stdio => finish(stdio(&globals).await),
            Command::Client(command) => cli::run(globals, command, Extras { openapi }).await,
        }
    })
}

async fn serve(globals: &Globals, arguments: &ServeArgs) -> anyhow::Result<()> {
    let settings = Settings::load(&flags(globals, arguments), &Environment::of_process())?;
    telemetry::start(&settings.log, settings.coder.iter().map(|coder| coder.token.clone()).collect());
    Ok(boot::serve(&settings).await?)
}

async fn stdio(globals: &Globals) -> anyhow::Result<()> {
    let nothing = ServeArgs { port: None, bind: None };
    let settings = Settings::load(&flags(globals, &nothing), &Environment::of_process())?;
    telemetry::start(&settings.log, Vec::new());
    let token = std::env::var("FLEET_TOKEN").ok().filter(|token| !token.is_empty()).map(SecretString::from);
    Ok(boot::stdio(&settings.data_dir, token).await?)
}

fn flags(globals: &Globals, arguments: &ServeArgs) -> Flags {
    Flags {
        data_dir: globals.data_dir.clone(),
        config: globals.config.clone(),
        bind: arguments.bind.map(|address| address.to_string()),
        port: arguments.port,
        log_level: globals.log_level.map(|level| level.word().to_owned()),
    }
}

fn openapi() -> String {
    web::openapi().to_pretty_json().unwrap_or_default()
}

fn finish(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => Exit::Ok.into(),
        Err(error) => report(&error),
    }
}

/// The whole chain of causes on one line of standard error.
fn report(error: &anyhow::Error) -> ExitCode {
    anstream::eprintln!("error: {error:#}");
    match error.downcast_ref::<BootError>() {
        Some(BootError::Held { .. }) => Exit::Held.into(),
        Some(BootError::NoCoder) => Exit::Usage.into(),
        Some(_) => Exit::Failed.into(),
        None => Exit::Usage.into(),
    }
}
