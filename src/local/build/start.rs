//! A start build: the repository, the files for the agent, its process, and the wait until that answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::Utc;
use uuid::Uuid;

use super::checkout;
use super::work::Work;
use crate::local::agent_files::{self, Briefing};
use crate::local::enclosure::Terminals;
use crate::local::environment::{self, AgentEnvironment};
use crate::local::process::{ProcessId, ProcessSpec, Spawned, exited, spawn};
use crate::local::record::{Agent, AppHealth, Checkout, Connection, Lifecycle};
use crate::local::template::Template;
use crate::local::{LocalError, probe, prune, socket, token};

/// How much of the end of the process's output tells why it ended.
const LAST_OUTPUT: usize = 2_000;

pub(super) async fn start(work: &Work) -> Result<(), LocalError> {
    let template = version(work)?;
    // What an agent that is gone, or a start without a stop, has left running.
    work.step("Ending processes", work.end_processes()).await?;
    let checkout = match &work.workspace.checkout {
        Checkout::None => checkout::make(work, &template).await?,
        known => known.clone(),
    };
    let directory = checkout::directory(work, &checkout);
    let socket = socket::path_for(&work.place.fleet, work.workspace.id)?;
    // Never a directory of the caller's, which whoever works there can turn into a way to somewhere else.
    let mut visible = vec![work.place.root.clone()];
    visible.extend(socket.parent().map(Path::to_owned));
    let common = &work.deployment.options.agent_files;
    agent_files::write(&Briefing { place: &work.place, values: &work.build.values, common })?;
    // Whoever sees the agent ready sees its first metadata too.
    let metadata = agent_files::read_metadata(&work.place.metadata(), &[]);
    work.deployment.adjust(|memory| memory.metadata.insert(work.workspace.id, metadata));
    let engine = template.engine.clone().unwrap_or_else(|| work.deployment.options.engine.clone());
    let launch = Launch { directory, socket, visible, engine, port: work.deployment.site.port() };
    let started = work.step("Starting the agent", spawn_agent(work, &launch)).await?;
    work.step("Waiting for the agent", answer_of(work, &started)).await?;
    record_checkout(work, checkout).await
}

/// The version of the build; a server that has started since knows only the one in force, and says so.
fn version(work: &Work) -> Result<Arc<Template>, LocalError> {
    let (workspace, id) = (&work.workspace, work.build.version_id);
    let version = work.deployment.version_of(workspace, id);
    let version = version.ok_or_else(|| LocalError::NoTemplate(workspace.template.name.clone()))?;
    if version.version_id != id {
        work.amend_build(|build| build.version_id = version.version_id);
    }
    Ok(version)
}

/// What a process is started with beyond the workspace itself.
struct Launch {
    directory: PathBuf,
    socket: PathBuf,
    visible: Vec<PathBuf>,
    engine: String,
    port: u16,
}

struct Started {
    /// Kept so that the process is reaped when it ends under our eyes.
    process: Spawned,
    socket: PathBuf,
    log_start: u64,
}

async fn spawn_agent(work: &Work, launch: &Launch) -> Result<Started, LocalError> {
    let token = Uuid::new_v4().to_string();
    let options = &work.deployment.options;
    prune::turn_log(&work.place)?;
    let log = work.place.log();
    let log_start = std::fs::metadata(&log).map_or(0, |known| known.len());
    let spec = ProcessSpec {
        prefix: work.deployment.enclosure.prefix(&launch.visible, Terminals::Own),
        program: options.runner.program.clone(),
        arguments: options.runner.arguments.iter().map(Into::into).collect(),
        directory: launch.directory.clone(),
        environment: environment::of_agent(&AgentEnvironment {
            site: &work.deployment.site,
            workspace: &work.workspace,
            generation: work.build.number,
            token: &token,
            fleet: &work.place.fleet,
            socket: &launch.socket,
            engine: &launch.engine,
            files: &options.agent_files,
        }),
        log,
    };
    // The record comes first: a process that is not written down could not be found again by its token.
    let agent = agent(launch, &token, log_start);
    work.amend_build(|build| build.agent = Some(agent));
    let program = options.runner.program.clone();
    let process = spawn(&spec).map_err(|source| LocalError::Runner { program, source })?;
    record_process(work, &process.id);
    Ok(Started { process, socket: launch.socket.clone(), log_start })
}

fn agent(launch: &Launch, token: &str, log_start: u64) -> Agent {
    Agent {
        id: Uuid::new_v4(),
        resource_id: Uuid::new_v4(),
        app_id: Uuid::new_v4(),
        token_hash: token::hash(token),
        created_at: Utc::now(),
        directory: launch.directory.clone(),
        socket: launch.socket.clone(),
        port: launch.port,
        visible: launch.visible.clone(),
        process: None,
        log_start,
        connection: Connection::Connecting,
        first_connected_at: None,
        last_connected_at: None,
        lifecycle: Lifecycle::Created,
        started_at: None,
        ready_at: None,
        app_health: AppHealth::Initializing,
        statuses: Vec::new(),
    }
}

fn record_process(work: &Work, process: &ProcessId) {
    let process = *process;
    work.amend_build(|build| {
        if let Some(agent) = &mut build.agent {
            agent.process = Some(process);
        }
    });
}

/// Waits until the agent answers; one that ends before has said why in its log.
async fn answer_of(work: &Work, started: &Started) -> Result<(), LocalError> {
    tokio::select! {
        biased;
        ended = exited(&started.process.id) => {
            ended.map_err(LocalError::Unending)?;
            Err(LocalError::RunnerEnded { output: last_output(&work.place.log(), started.log_start) })
        }
        () = probe::until_ready(&started.socket) => Ok(()),
    }
}

async fn record_checkout(work: &Work, checkout: Checkout) -> Result<(), LocalError> {
    let amended = work.deployment.amend(work.workspace.id, |workspace| workspace.checkout = checkout);
    match amended {
        Some(saving) => saving.done().await,
        None => Ok(()),
    }
}

fn last_output(log: &Path, start: u64) -> String {
    let text = agent_files::read_log(log, start);
    let text = text.trim();
    let from = text.ceil_char_boundary(text.len().saturating_sub(LAST_OUTPUT));
    match text.get(from..) {
        Some("") | None => "it printed nothing".to_owned(),
        Some(output) => output.replace('\n', "; "),
    }
}
