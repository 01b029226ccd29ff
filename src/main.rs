//! The `fleet-mcp` program: reads the command line and hands over to `boot` or `cli`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use fleet_mcp::boot::background::Background;
use fleet_mcp::boot::{self, BootError, EmbeddedOptions, Ready, StdioOptions};
use fleet_mcp::cli::{
    self, AgentArgs, AgentHost, Cli, CliError, Command, Demo, DeployedArgs, EncloseArgs, EngineArgs,
    EngineProgram, Exit, Extras, Globals, LocalCoderArgs, RoleToken, ServeArgs, StdioArgs, UpArgs, UpReport,
};
use fleet_mcp::config::{Environment, Flags, LogFormat, LogSettings, Settings};
use fleet_mcp::engine::installed::{self, InstalledCli};
use fleet_mcp::engine::{self, EngineWord, demo, discovery};
use fleet_mcp::local::LocalLimits;
use fleet_mcp::local::enclosure::{self, DirectoryLocation, EncloseRequest, ProcessScope, Terminals};
use fleet_mcp::runner::{self, Options, RunnerLimits};
use fleet_mcp::telemetry::Secrets;
use fleet_mcp::{hooks, telemetry, web};
use secrecy::SecretString;
use url::Url;

fn main() -> ExitCode {
    // Before the runtime starts threads: only a single-threaded process can create a user namespace.
    if std::env::args_os().nth(1).is_some_and(|word| word == enclosure::COMMAND) {
        return enclose(EncloseArgs::of_words(std::env::args_os().skip(1)));
    }
    let Cli { globals, command } = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&anyhow::Error::new(error).context("cannot start the runtime")),
    };
    runtime.block_on(async {
        match command {
            Command::Up(arguments) => finish(up(&globals, &arguments).await),
            Command::Serve(arguments) => finish(serve(&globals, &arguments).await),
            Command::Stdio(arguments) => finish(stdio(&globals, &arguments).await),
            Command::LocalCoder(arguments) => finish(local_coder(&globals, &arguments).await),
            Command::Agent(arguments) => finish(agent(&globals, &arguments).await),
            Command::DemoEngine(arguments) if arguments.linger => demo::linger().await,
            Command::DemoEngine(_) => demo::play().await,
            Command::Client(command) => cli::run(globals, command, Extras { openapi }).await,
        }
    })
}

fn enclose(arguments: EncloseArgs) -> ExitCode {
    if let Some(process) = arguments.map_users {
        return finish(enclosure::map_users(process).context("cannot write the user map"));
    }
    let ended = match (arguments.init, arguments.lead_terminal) {
        (Some(tether), _) => {
            // The command's environment has the divisor, as this process's has.
            let limits = LocalLimits::NORMAL.divided_by(hooks::limits_divisor());
            enclosure::init(tether, &arguments.command, limits.leftovers)
        }
        (None, true) => enclosure::lead_terminal(&arguments.command),
        (None, false) => match request(arguments) {
            Ok(request) => enclosure::enter(&request),
            Err(error) => return report(&error),
        },
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let code = ExitCode::from(error.exit_code());
            anstream::eprintln!("error: {:#}", anyhow::Error::new(error));
            code
        }
    }
}

fn request(arguments: EncloseArgs) -> anyhow::Result<EncloseRequest> {
    let processes = processes(&arguments)?;
    let EncloseArgs { hide, keep, read_only, pin, own_terminals, directory, command, .. } = arguments;
    let terminals = if own_terminals { Terminals::Own } else { Terminals::Shared };
    let hide: Option<Vec<DirectoryLocation>> =
        hide.iter().map(|word| DirectoryLocation::from_argument(word)).collect();
    let hide = hide.context("--hide takes a device, an inode and a directory with colons between them")?;
    Ok(EncloseRequest { hide, keep, read_only, pin, terminals, processes, directory, command })
}

fn processes(arguments: &EncloseArgs) -> anyhow::Result<ProcessScope> {
    Ok(match &arguments.join {
        Some(encloser) => ProcessScope::Of(encloser.parse().map_err(anyhow::Error::msg)?),
        None if arguments.own_processes => ProcessScope::Own,
        None if arguments.no_walls => ProcessScope::Unenclosed,
        None => ProcessScope::Shared,
    })
}

async fn serve(globals: &Globals, arguments: &DeployedArgs) -> anyhow::Result<()> {
    let settings = Settings::load(&flags(globals, &arguments.serve), &Environment::of_process())?;
    telemetry::start(&settings.log, secrets(&settings));
    let engine = requested_engine(&arguments.engine, Demo::Unwanted)?;
    Ok(boot::serve(&settings, engine, Box::new(|_, _| Box::pin(async {}))).await?)
}

async fn up(globals: &Globals, arguments: &UpArgs) -> anyhow::Result<()> {
    let mut flags = flags(globals, &arguments.serve);
    // On a terminal the log would hide the greeting; in a file it is the only output.
    flags.usual_log_level = std::io::stderr().is_terminal().then(|| "warn".to_owned());
    let settings = Settings::load(&flags, &Environment::of_process())?;
    let secrets = secrets(&settings);
    telemetry::start(&settings.log, secrets.clone());
    let demo = if arguments.demo { Demo::Wanted } else { Demo::Unwanted };
    let asked = requested_engine(&arguments.engine, demo)?;
    let (globals, coder) = (globals.clone(), settings.coder.as_ref().map(|coder| coder.url.clone()));
    let ready: Ready = Box::new(move |server, stop| {
        Box::pin(async move {
            let report = UpReport { host: host(coder, asked).await, demo, find_program };
            cli::greet(globals, report, server, stop).await;
        })
    });
    Ok(boot::up(&settings, &embedded(0, asked, secrets), ready).await?)
}

async fn local_coder(globals: &Globals, arguments: &LocalCoderArgs) -> anyhow::Result<()> {
    let nothing = ServeArgs { port: None, bind: None };
    let settings = Settings::load(&flags(globals, &nothing), &Environment::of_process())?;
    let secrets = Secrets::default();
    telemetry::start(&settings.log, secrets.clone());
    let asked = requested_engine(&arguments.engine, Demo::Unwanted)?;
    let options = embedded(arguments.port.unwrap_or_default(), asked, secrets);
    Ok(boot::local_coder(&settings, &options).await?)
}

/// The project `here` is the directory of this process, for callers that send none.
fn embedded(port: u16, asked: EngineWord, secrets: Secrets) -> EmbeddedOptions {
    EmbeddedOptions {
        port,
        engine: resolve_engine(asked),
        asked,
        here: std::env::current_dir().ok(),
        secrets,
    }
}

fn secrets(settings: &Settings) -> Secrets {
    Secrets::new(settings.coder.iter().map(|coder| coder.token.clone()).collect())
}

/// The requested engine; demo agents use the free demo engine unless --engine is given.
fn requested_engine(arguments: &EngineArgs, demo: Demo) -> Result<EngineWord, BootError> {
    let named = arguments.engine.as_deref().filter(|word| !word.is_empty());
    match (named, demo) {
        (Some(word), _) => engine::by_word(word).map_err(BootError::Engine),
        (None, Demo::Wanted) => Ok(EngineWord::Demo),
        (None, Demo::Unwanted) => Ok(EngineWord::Auto),
    }
}

/// The engine that the requested one stands for on this machine.
fn resolve_engine(asked: EngineWord) -> EngineWord {
    discovery::resolve_engine(asked, &discovery::find_clis(find_program))
}

async fn host(coder: Option<Url>, asked: EngineWord) -> AgentHost {
    if let Some(url) = coder {
        return AgentHost::Coder { url };
    }
    let (engine, program) = match resolve_engine(asked) {
        EngineWord::Auto => match installed::preferred(&path()).await {
            Some(cli) => (cli.word, program_of(cli)),
            None => (EngineWord::Demo, own_engine()),
        },
        EngineWord::Demo => (EngineWord::Demo, own_engine()),
        EngineWord::Custom => (EngineWord::Custom, EngineProgram::Custom),
        word @ (EngineWord::Claude | EngineWord::Codex | EngineWord::CursorAgent) => {
            (word, cli_program(word).await)
        }
    };
    AgentHost::Here { engine: engine.word().to_owned(), program }
}

fn own_engine() -> EngineProgram {
    EngineProgram::Own { instead: discovery::find_clis(find_program).first().map(|found| found.word.word()) }
}

async fn cli_program(engine: EngineWord) -> EngineProgram {
    match find_program(engine.word()) {
        Some(program) => program_of(installed::inspect(engine, program).await),
        None => EngineProgram::Missing(engine.word().to_owned()),
    }
}

fn program_of(cli: InstalledCli) -> EngineProgram {
    EngineProgram::Found { program: cli.program, version: cli.version, wanted: cli.wanted }
}

fn path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn find_program(name: &str) -> Option<PathBuf> {
    installed::program(name, &path())
}

async fn stdio(globals: &Globals, arguments: &StdioArgs) -> anyhow::Result<()> {
    let nothing = ServeArgs { port: None, bind: None };
    let settings = Settings::load(&flags(globals, &nothing), &Environment::of_process())?;
    telemetry::start(&settings.log, Secrets::default());
    let token = std::env::var("FLEET_TOKEN").ok().filter(|token| !token.is_empty()).map(SecretString::from);
    let (config, address) = (globals.config.clone(), settings.server.address);
    let background = Background { data_dir: settings.data_dir, config, address };
    let server = background.server_or_start().await?;
    let directory = std::env::current_dir().unwrap_or_default();
    let bridge = |token| boot::stdio(StdioOptions { background, mcp_url: server.mcp_url, token, directory });
    let Some(role) = &arguments.as_role else { return Ok(bridge(token).await?) };
    anyhow::ensure!(token.is_none(), "FLEET_TOKEN and --as-role both set the caller: omit one of them");
    let own = RoleToken::mint(globals, role).await?;
    let bridged = bridge(Some(own.token.clone())).await;
    if let Err(error) = own.revoke().await {
        tracing::warn!(%error, "the token of this bridge could not be revoked");
    }
    Ok(bridged?)
}

async fn agent(globals: &Globals, arguments: &AgentArgs) -> anyhow::Result<()> {
    let limits = RunnerLimits::NORMAL.divided_by(hooks::limits_divisor());
    let options = Options::read(arguments.port, limits, |name| std::env::var(name).ok())?;
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
        usual_log_level: None,
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

/// All causes on one line of standard error.
fn report(error: &anyhow::Error) -> ExitCode {
    anstream::eprintln!("error: {error:#}");
    if let Some(error) = error.downcast_ref::<CliError>() {
        return error.exit().into();
    }
    match error.downcast_ref::<BootError>() {
        Some(BootError::Held { .. }) => Exit::Held.into(),
        Some(BootError::NoCoder | BootError::Engine(_)) => Exit::Usage.into(),
        Some(_) => Exit::Failed.into(),
        None => Exit::Usage.into(),
    }
}
