//! The `fleet-mcp` program: reads the command line and hands over to `boot` or `cli`.

use std::process::ExitCode;

use anyhow::Context;
use fleet_mcp::boot::{self, BootError, EmbeddedOptions};
use fleet_mcp::cli::{
    self, AgentArgs, Cli, Command, EncloseArgs, Exit, Extras, Globals, LocalCoderArgs, ServeArgs, UpArgs,
};
use fleet_mcp::config::{Environment, Flags, LogFormat, LogSettings, Settings};
use fleet_mcp::engine::demo;
use fleet_mcp::local::enclosure::{self, Order, Terminals};
use fleet_mcp::runner::{self, Options};
use fleet_mcp::telemetry::Secrets;
use fleet_mcp::{telemetry, web};
use secrecy::SecretString;

fn main() -> ExitCode {
    let Cli { globals, command } = Cli::parse();
    // Before the runtime, because its threads could not follow.
    if let Command::Enclose(arguments) = command {
        return enclose(arguments);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&anyhow::Error::new(error).context("cannot start the runtime")),
    };
    runtime.block_on(async {
        match command {
            Command::Up(arguments) => finish(up(&globals, &arguments).await),
            Command::Serve(arguments) => finish(serve(&globals, &arguments).await),
            Command::Stdio => finish(stdio(&globals).await),
            Command::LocalCoder(arguments) => finish(local_coder(&globals, &arguments).await),
            Command::Agent(arguments) => finish(agent(&globals, &arguments).await),
            Command::DemoEngine(arguments) if arguments.linger => demo::linger().await,
            Command::DemoEngine(_) => demo::play().await,
            Command::Enclose(arguments) => enclose(arguments),
            Command::Client(command) => cli::run(globals, command, Extras { openapi }).await,
        }
    })
}

fn enclose(arguments: EncloseArgs) -> ExitCode {
    let EncloseArgs { hide, keep, own_terminals, map_users, command } = arguments;
    if let Some(process) = map_users {
        return finish(enclosure::map_users(process).context("cannot write down the users"));
    }
    let terminals = if own_terminals { Terminals::Own } else { Terminals::Shared };
    match enclosure::enter(&Order { hide, keep, terminals, command }) {
        Ok(()) => Exit::Ok.into(),
        Err(error) => {
            let code = ExitCode::from(error.exit_code());
            anstream::eprintln!("error: {:#}", anyhow::Error::new(error));
            code
        }
    }
}

async fn serve(globals: &Globals, arguments: &ServeArgs) -> anyhow::Result<()> {
    let settings = Settings::load(&flags(globals, arguments), &Environment::of_process())?;
    telemetry::start(&settings.log, secrets(&settings));
    Ok(boot::serve(&settings).await?)
}

async fn up(globals: &Globals, arguments: &UpArgs) -> anyhow::Result<()> {
    let settings = Settings::load(&flags(globals, &arguments.serve), &Environment::of_process())?;
    let options = embedded(0, &arguments.engine.engine, secrets(&settings));
    telemetry::start(&settings.log, options.secrets.clone());
    Ok(boot::up(&settings, &options).await?)
}

async fn local_coder(globals: &Globals, arguments: &LocalCoderArgs) -> anyhow::Result<()> {
    let nothing = ServeArgs { port: None, bind: None };
    let settings = Settings::load(&flags(globals, &nothing), &Environment::of_process())?;
    let options = embedded(arguments.port.unwrap_or_default(), &arguments.engine.engine, Secrets::default());
    telemetry::start(&settings.log, options.secrets.clone());
    Ok(boot::local_coder(&settings, &options).await?)
}

/// The project `here` is the directory this was started in.
fn embedded(port: u16, engine: &str, secrets: Secrets) -> EmbeddedOptions {
    EmbeddedOptions { port, engine: engine.to_owned(), here: std::env::current_dir().ok(), secrets }
}

fn secrets(settings: &Settings) -> Secrets {
    Secrets::new(settings.coder.iter().map(|coder| coder.token.clone()).collect())
}

async fn stdio(globals: &Globals) -> anyhow::Result<()> {
    let nothing = ServeArgs { port: None, bind: None };
    let settings = Settings::load(&flags(globals, &nothing), &Environment::of_process())?;
    telemetry::start(&settings.log, Secrets::default());
    let token = std::env::var("FLEET_TOKEN").ok().filter(|token| !token.is_empty()).map(SecretString::from);
    Ok(boot::stdio(&settings.data_dir, token).await?)
}

async fn agent(globals: &Globals, arguments: &AgentArgs) -> anyhow::Result<()> {
    let options = Options::read(arguments.port, |name| std::env::var(name).ok())?;
    let level = globals.log_level.map(|level| level.word().to_owned());
    let level = level.or_else(|| std::env::var("MCP_LOG_LEVEL").ok()).unwrap_or_else(|| "info".to_owned());
    let secrets = Secrets::new(options.coder.iter().map(|coder| coder.agent_token.clone()).collect());
    telemetry::start(&LogSettings { level, format: LogFormat::Text }, secrets);
    Ok(runner::run(options).await.map_err(BootError::Agent)?)
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
