//! Runs one server from start to stop: store, fleet, surfaces, shut down in reverse order.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::background::LOG;
use super::data_dir::DataDir;
use super::local_coder::{self, EmbeddedOptions, HostInspector};
use super::{BootError, squads, store_location, token_file};
use crate::app::catalog::{Catalog, CatalogDirs};
use crate::app::doctor::{HostInspection, Inspection};
use crate::app::engines::EngineOptions;
use crate::app::{Fleet, FleetOptions};
use crate::cli::ServerFile;
use crate::coder::exec::ExecLimits;
use crate::coder::{Client, ClientOptions, RetryPolicy, TokenOrigin};
use crate::config::{CoderSettings, Settings, TokenSource};
use crate::domain::budget::{Budget, Usd};
use crate::domain::hosting::Hosting;
use crate::domain::limits::Limits;
use crate::domain::role::RoleKind;
use crate::engine::EngineWord;
use crate::hooks;
use crate::mcp::tools::Toolsets;
use crate::mcp::transport::{self, TransportOptions};
use crate::process::StopSignals;
use crate::serve::{self, OpenRequests};
use crate::store::{Store, StoreOptions};
use crate::web::{self, Access, Metrics, WebState};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CODER_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY: RetryPolicy = RetryPolicy {
    attempts: NonZeroU32::new(4).unwrap(),
    base_delay: Duration::from_millis(200),
    max_delay: Duration::from_secs(5),
};
/// Serve anyway if the first poll takes longer; calls then get an error about Coder.
const FIRST_POLL_LIMIT: Duration = Duration::from_secs(5);
/// After this time a shutdown stops waiting: the record holds the rest.
const DRAIN_LIMIT: Duration = Duration::from_secs(25);

/// Everything that runs, to be shut down together.
struct RunningServer {
    fleet: Fleet,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// A port that is bound before anything else is started.
struct BoundPort {
    listener: TcpListener,
    url: String,
}

/// A callback for when the server serves; it ends soon after the token is canceled.
pub type Ready = Box<dyn FnOnce(ServerFile, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// The resources of a server: its directory, store and port, and the callback.
struct ServerResources<'a> {
    dir: &'a DataDir,
    store: &'a Store,
    bound: BoundPort,
    signals: StopSignals,
    ready: Ready,
}

/// The Coder deployment of a fleet.
struct CoderDeployment<'a> {
    coder: &'a CoderSettings,
    hosting: Hosting,
    engine: EngineWord,
    /// None if the workspaces are on other machines.
    inspector: Option<Arc<dyn HostInspection>>,
}

/// Serves a fleet on the configured deployment until SIGTERM, Ctrl-C, a hangup or `down`.
pub async fn serve(settings: &Settings, engine: EngineWord, ready: Ready) -> Result<(), BootError> {
    let coder = settings.coder.as_ref().ok_or(BootError::NoCoder)?;
    let dir = DataDir::hold(&settings.data_dir)?;
    // A signal during the start stops the server once it serves.
    let signals = StopSignals::listen().map_err(BootError::Signals)?;
    let bound = bind(settings).await?;
    let store = open_store(settings).await?;
    let resources = ServerResources { dir: &dir, store: &store, bound, signals, ready };
    let deployment = CoderDeployment { coder, hosting: Hosting::Deployment, engine, inspector: None };
    let served = run(settings, deployment, resources).await;
    store.close().await;
    dir.withdraw();
    served
}

/// Like `serve`, with an embedded Coder when no deployment is set.
pub async fn up(settings: &Settings, options: &EmbeddedOptions, ready: Ready) -> Result<(), BootError> {
    if settings.coder.is_some() {
        return serve(settings, options.asked, ready).await;
    }
    let dir = DataDir::hold(&settings.data_dir)?;
    // A signal during the start stops the server once it serves.
    let signals = StopSignals::listen().map_err(BootError::Signals)?;
    let bound = bind(settings).await?;
    // Refused before anything is created there.
    store_location::hidden_directory(settings)?;
    let store = open_store(settings).await?;
    let local = local_coder::start(settings, options).await?;
    let mut settings = settings.clone();
    // Agents on this machine reach us at the bound address.
    settings.server.public_url.get_or_insert_with(|| bound.url.clone());
    let resources = ServerResources { dir: &dir, store: &store, bound, signals, ready };
    let coder = local_coder::settings_of(&local);
    let hosting = Hosting::Embedded(local.isolation().clone());
    // Agents may run the demo engine for want of a CLI; a request for a squad gets an error instead.
    let inspector: Arc<dyn HostInspection> = Arc::new(HostInspector(local.inspector()));
    let deployment =
        CoderDeployment { coder: &coder, hosting, engine: options.asked, inspector: Some(inspector) };
    let served = run(&settings, deployment, resources).await;
    local.stop().await;
    store.close().await;
    dir.withdraw();
    served
}

async fn open_store(settings: &Settings) -> Result<Store, BootError> {
    let backups = settings.data_dir.join("backups");
    let options = StoreOptions { path: settings.database.clone(), backups };
    // The token file exists once the first server of a data directory has served.
    if settings.data_dir.join("operator.token").exists() {
        Store::refuse_emptied(&options).map_err(BootError::Store)?;
    }
    Store::open(&options).await.map_err(BootError::Store)
}

async fn bind(settings: &Settings) -> Result<BoundPort, BootError> {
    let address = settings.server.address;
    let listener =
        TcpListener::bind(address).await.map_err(|source| BootError::Listen { address, source })?;
    let bound = listener.local_addr().map_err(BootError::Serve)?;
    Ok(BoundPort { listener, url: format!("http://{bound}") })
}

async fn run(
    settings: &Settings,
    deployment: CoderDeployment<'_>,
    resources: ServerResources<'_>,
) -> Result<(), BootError> {
    let ServerResources { dir, store, bound, signals, ready } = resources;
    let toolsets = Toolsets::parse(&settings.toolsets).map_err(BootError::Toolsets)?;
    let coder_url = deployment.coder.url.clone();
    let running = start_fleet(settings, deployment, (store, &bound.url)).await?;
    write_tokens(&running.fleet, dir).await?;
    let file = server_file(&bound.url)?;
    let router = router(settings, &running, toolsets);
    stop_on(signals, &running);
    let stop = running.stop.clone();
    // Serving begins after the first poll, so that early requests do not find an empty fleet.
    let first_poll = tokio::time::timeout(FIRST_POLL_LIMIT, running.fleet.health().asked());
    let _polled = stop.run_until_cancelled(first_poll).await;
    let serving = running.tasks.spawn(serve::serve(
        bound.listener,
        router,
        serve::ConnectionLimits::of_process(),
        stop,
    ));
    dir.announce(&file)?;
    tracing::info!(server.url = %file.url, coder.url = %coder_url, "serving");
    running.tasks.spawn(ready(file, running.stop.clone()));
    let ended = tokio::select! {
        ended = serving => ended,
        () = running.stop.cancelled() => Ok(()),
    };
    shut_down(running).await;
    ended.map_err(|error| BootError::Serve(error.into()))
}

async fn start_fleet(
    settings: &Settings,
    deployment: CoderDeployment<'_>,
    (store, bound_url): (&Store, &str),
) -> Result<RunningServer, BootError> {
    let CoderDeployment { coder, hosting, engine, inspector } = deployment;
    let client = coder_client(coder)?;
    let dirs = CatalogDirs {
        roles: settings.fleet.role_dirs.clone(),
        projects: settings.fleet.project_dirs.clone(),
    };
    let catalog = Catalog::open(dirs);
    let own_program = std::env::current_exe().map_err(BootError::Serve)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let commands = squads::engines(&settings.squads, engine)?;
    let engine = EngineOptions { word: engine, own_program, path, commands };
    let mut options = fleet_options(settings, (hosting, engine), bound_url)?;
    options.inspection.host = inspector;
    let fleet = Fleet::open(store.clone(), client.clone(), catalog, options).await;
    let fleet = fleet.map_err(BootError::Fleet)?;
    let (stop, tasks) = (fleet.stop_token(), TaskTracker::new());
    fleet.start(&tasks);
    if let TokenSource::File(path) = &coder.token_source {
        let (file, token) = ((path.clone(), limits().token_read), coder.token.clone());
        tasks.spawn(token_file::follow(fleet.clone(), client, file, token, stop.clone()));
    }
    Ok(RunningServer { fleet, stop, tasks })
}

fn coder_client(coder: &CoderSettings) -> Result<Client, BootError> {
    let options = ClientOptions {
        url: coder.url.clone(),
        token: coder.token.clone(),
        token_origin: token_origin(&coder.token_source),
        timeout: CODER_TIMEOUT,
        requests_per_minute: coder.requests_per_minute,
        retry: RETRY,
        exec: ExecLimits::NORMAL.divided_by(hooks::limits_divisor()),
    };
    Client::new(options).map_err(BootError::Coder)
}

fn token_origin(source: &TokenSource) -> TokenOrigin {
    match source {
        TokenSource::Environment => TokenOrigin::Environment,
        TokenSource::File(_) => TokenOrigin::File,
        TokenSource::Embedded => TokenOrigin::Embedded,
    }
}

fn fleet_options(
    settings: &Settings,
    (hosting, engine): (Hosting, EngineOptions),
    bound_url: &str,
) -> Result<FleetOptions, BootError> {
    let public_url = settings.server.public_url.clone();
    Ok(FleetOptions {
        poll_interval: settings.fleet.poll_interval,
        parallel_builds: settings.fleet.parallel_builds,
        stuck_after: settings.fleet.stuck_after,
        limits: limits(),
        build_timeout: settings.fleet.build_timeout,
        callback_url: Some(public_url.clone().unwrap_or_else(|| bound_url.to_owned())),
        public_url,
        budget: Budget {
            max_cost: settings.fleet.max_cost_usd.and_then(Usd::parse),
            max_tokens: settings.fleet.max_tokens,
        },
        rescue_dir: settings.data_dir.join("rescued"),
        squads: squads::options(&settings.squads, &hosting),
        hosting,
        engine,
        inspection: Inspection { host: None, logs: vec![settings.data_dir.join(LOG)] },
    })
}

/// The operator's token for the CLI, and a manager's for stdio clients.
async fn write_tokens(fleet: &Fleet, dir: &DataDir) -> Result<(), BootError> {
    for (kind, name) in [(RoleKind::Operator, "operator"), (RoleKind::Manager, "manager")] {
        let path = dir.file(&format!("{name}.token"));
        let made: Result<SecretString, _> = fleet.token_in_file(kind, name, &path).await;
        made.map_err(|source| BootError::TokenFile { path, source })?;
    }
    Ok(())
}

fn server_file(base: &str) -> Result<ServerFile, BootError> {
    let parse = |text: &str| Url::parse(text).map_err(|error| BootError::Serve(std::io::Error::other(error)));
    Ok(ServerFile {
        url: parse(base)?,
        mcp_url: parse(&format!("{base}/mcp"))?,
        pid: std::process::id(),
        version: VERSION.to_owned(),
    })
}

fn limits() -> Limits {
    Limits::NORMAL.divided_by(hooks::limits_divisor())
}

/// REST and MCP behind one origin check.
fn router(settings: &Settings, running: &RunningServer, toolsets: Toolsets) -> Router {
    let server = &settings.server;
    // The loopback network has more addresses than the usual one. An outside address is allowed only by name.
    let bound = server.address.ip();
    let own = bound.is_loopback().then(|| bound.to_string());
    let allowed_hosts = server.allowed_hosts.iter().cloned().chain(own).collect();
    let state = WebState {
        fleet: running.fleet.clone(),
        access: Access { allowed_hosts, allowed_origins: server.allowed_origins.clone() },
        shutdown: running.stop.clone(),
        tasks: running.tasks.clone(),
        metrics: Metrics::new(),
        open_requests: OpenRequests::default(),
        version: VERSION,
    };
    let options = TransportOptions { shutdown: running.stop.clone(), toolsets };
    let mcp = transport::service(running.fleet.clone(), options);
    web::guard(web::router(state.clone()).nest_service("/mcp", mcp), &state)
}

fn stop_on(signals: StopSignals, running: &RunningServer) {
    let stop = running.stop.clone();
    running.tasks.spawn(async move {
        stop.run_until_cancelled(signals.received()).await;
        stop.cancel();
    });
}

async fn shut_down(running: RunningServer) {
    running.stop.cancel();
    running.tasks.close();
    if tokio::time::timeout(DRAIN_LIMIT, running.tasks.wait()).await.is_err() {
        tracing::warn!("some work did not end in time; the next start resumes it");
    }
}
