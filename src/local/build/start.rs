//! Runs a start build: the repository, the agent's files, its process, and the wait until it answers.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use uuid::Uuid;

use super::checkout::PreparedCheckout;
use super::work::Work;
use super::{WorkspaceDirs, blocking, checkout, with_deadline};
use crate::hooks::point;
use crate::local::agent_files::{self, StartFiles};
use crate::local::deployment_info::is_out_of_reach;
use crate::local::enclosure::{DirectoryAccess, status_of_command};
use crate::local::environment::{self, AgentEnvironment};
use crate::local::record::{
    Agent, AppHealth, Checkout, Connection, Lifecycle, RESPAWN_WINDOW, Reason, Workspace,
};
use crate::local::template::Template;
use crate::local::{LocalError, probe, socket, token};
use crate::process::{ProcessId, ProcessSpec, Spawned, exited, is_alive, spawn};

/// How much of the process's last output an error shows.
const LAST_OUTPUT: usize = 2_000;

/// Each start has its own log; earlier versions appended to one file.
const LOG_START: u64 = 0;

/// Limit on automatic restarts of an agent within the respawn window.
const MOST_RESPAWNS: usize = 3;

pub(super) async fn start(work: &Work) -> Result<(), LocalError> {
    check_respawns(work)?;
    if let Some((process, socket)) = survivor(work)
        && work
            .step("Waiting for the agent", answers(&process, &socket, work.deployment.options.limits.probe))
            .await?
    {
        return show_metadata(work).await;
    }
    work.deployment.enclosure.check().await?;
    let template = version(work)?;
    // Ends what a lost agent, or a start without a stop, has left running.
    work.step("Ending processes", work.end_processes()).await?;
    let made = match &work.workspace.checkout {
        Checkout::None => checkout::make(work, &template).await?,
        known => PreparedCheckout {
            checkout: known.clone(),
            base: work.workspace.base.clone(),
            notes: work.workspace.start_notes.clone(),
        },
    };
    let directory = checkout::directory(work, &made.checkout);
    // Never a directory of the caller's: an agent that works there can replace it by a link.
    let visible = vec![work.dirs.root.clone()];
    write_files(work).await?;
    let engine = template.variant(&work.build.values).engine.clone();
    let engine = engine.unwrap_or_else(|| work.deployment.options.engine.clone());
    let read_only = checkout::read_only(&made.checkout).await?;
    let port = work.deployment.info.port();
    let launch = Launch { made, directory, visible, read_only, engine, port };
    bring_up(work, &launch).await
}

/// Starts another process if one is killed from outside before it answers: that tells nothing about the agent.
async fn bring_up(work: &Work, launch: &Launch) -> Result<(), LocalError> {
    let mut n_killed = 0;
    loop {
        let mut started = work.uninterrupted_step("Starting the agent", spawn_agent(work, launch)).await?;
        match work.step("Waiting for the agent", answer_of(work, &mut started)).await {
            Err(LocalError::RunnerKilled { .. }) if n_killed < MOST_RESPAWNS => n_killed += 1,
            outcome => return outcome,
        }
        work.step("Ending processes", work.end_processes()).await?;
    }
}

/// Bounds the restarts, and the engine's cost, of an agent that keeps exiting.
fn check_respawns(work: &Work) -> Result<(), LocalError> {
    let n_respawns = work.workspace.n_respawns(Utc::now());
    if work.build.reason == Reason::Respawn && n_respawns > MOST_RESPAWNS {
        return Err(LocalError::KeepsEnding { n_ends: n_respawns, minutes: RESPAWN_WINDOW.num_minutes() });
    }
    Ok(())
}

/// The process that this build started before the server was killed. It may already be at work, so it is awaited
/// and not replaced. A process that reports to another port is unusable, and a process whose socket agents can
/// replace is not trusted.
fn survivor(work: &Work) -> Option<(ProcessId, PathBuf)> {
    let agent = work.build.agent.as_ref().filter(|agent| agent.port == work.deployment.info.port())?;
    let process = agent.process.filter(|process| matches!(is_alive(process), Ok(true)))?;
    is_out_of_reach(&agent.socket).then(|| (process, agent.socket.clone()))
}

/// Writes the agent's files and reads its first metadata.
async fn write_files(work: &Work) -> Result<(), LocalError> {
    let files = StartFiles {
        dirs: work.dirs.clone(),
        values: work.build.values.clone(),
        common: work.deployment.options.agent_files.clone(),
    };
    blocking(move || agent_files::write(&files)).await?;
    show_metadata(work).await
}

/// Metadata is published before the agent is shown as ready.
async fn show_metadata(work: &Work) -> Result<(), LocalError> {
    let dirs = work.dirs.clone();
    let metadata = blocking(move || Ok(agent_files::read_metadata(&dirs, &[]))).await?;
    work.deployment.adjust(|memory| memory.metadata.insert(work.workspace.id, metadata));
    Ok(())
}

/// The template version of the build; after a restart only the current version is known, which is logged.
fn version(work: &Work) -> Result<Arc<Template>, LocalError> {
    let (workspace, id) = (&work.workspace, work.build.version_id);
    let version = work.deployment.version_of(workspace, id);
    let version = version.ok_or_else(|| LocalError::NoTemplate(workspace.template.name.clone()))?;
    if version.version_id != id {
        work.amend_build(|build| build.version_id = version.version_id);
    }
    Ok(version)
}

/// Inputs of a process start beyond the workspace itself.
struct Launch {
    made: PreparedCheckout,
    directory: PathBuf,
    visible: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    engine: String,
    port: u16,
}

/// The process handle is kept, so that the process is reaped when it exits.
async fn spawn_agent(work: &Work, launch: &Launch) -> Result<Spawned, LocalError> {
    let token = Uuid::new_v4().to_string();
    let options = &work.deployment.options;
    let spec = ProcessSpec {
        prefix: prefix(work, launch).await?,
        program: options.runner.program.clone(),
        arguments: options.runner.arguments.iter().map(Into::into).collect(),
        environment: environment::of_agent(&AgentEnvironment {
            info: &work.deployment.info,
            workspace: &Workspace { base: launch.made.base.clone(), ..work.workspace.clone() },
            generation: work.build.number,
            token: &token,
            fleet: &work.dirs.fleet,
            engine: &launch.engine,
            files: &options.agent_files,
        }),
    };
    record_agent(work, launch, agent(launch, work.dirs.socket(), &token)).await?;
    let dirs = work.dirs.clone();
    let process = blocking(move || spawn_in(&dirs, &spec)).await?;
    point("agent.spawned");
    record_process(work, &process.id);
    Ok(process)
}

fn spawn_in(dirs: &WorkspaceDirs, spec: &ProcessSpec) -> Result<Spawned, LocalError> {
    let log = agent_files::begin_log(&dirs.log()).map_err(LocalError::directory(dirs.log()))?;
    // The process alone holds the socket from here on: connections are refused once it ends.
    let listener = Stdio::from(OwnedFd::from(socket::listen(&dirs.socket())?));
    let failed = |source| LocalError::Runner { program: spec.program.clone(), source };
    spawn(spec, listener, log).map_err(failed)
}

/// The enclosing command, which also enters the working directory.
async fn prefix(work: &Work, launch: &Launch) -> Result<Vec<OsString>, LocalError> {
    let (deployment, directory) = (Arc::clone(&work.deployment), launch.directory.clone());
    let (visible, read_only) = (launch.visible.clone(), launch.read_only.clone());
    let look = move || {
        let access =
            DirectoryAccess { visible: &visible, read_only: &read_only, directory: Some(&directory) };
        Ok(deployment.enclosure.prefix(access))
    };
    with_deadline(&launch.directory, look).await
}

fn agent(launch: &Launch, socket: PathBuf, token: &str) -> Agent {
    Agent {
        id: Uuid::new_v4(),
        resource_id: Uuid::new_v4(),
        app_id: Uuid::new_v4(),
        token_hash: token::hash(token),
        created_at: Utc::now(),
        directory: launch.directory.clone(),
        socket,
        port: launch.port,
        visible: launch.visible.clone(),
        read_only: launch.read_only.clone(),
        process: None,
        log_start: LOG_START,
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

/// Recorded before the start: an unrecorded process could not be identified by its token, and a checkout in which a
/// process has worked must not be made again, since its journal is in it.
async fn record_agent(work: &Work, launch: &Launch, agent: Agent) -> Result<(), LocalError> {
    let amended = work.deployment.amend(work.workspace.id, |workspace| {
        let PreparedCheckout { checkout, base, notes } = &launch.made;
        let is_made = workspace.checkout != *checkout;
        (workspace.checkout, workspace.base) = (checkout.clone(), base.clone());
        workspace.start_notes.clone_from(notes);
        if let Some(build) = workspace.build_mut(work.build.id) {
            build.has_made_checkout |= is_made;
            build.agent = Some(agent);
        }
    });
    match amended {
        Some(saving) => saving.done().await,
        None => Ok(()),
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

/// Waits until the agent answers; an exit before that is reported with the end of its log.
async fn answer_of(work: &Work, process: &mut Spawned) -> Result<(), LocalError> {
    let limit = work.deployment.options.limits.probe;
    if answers(&process.id, &work.dirs.socket(), limit).await? {
        return Ok(());
    }
    let ended = process.wait().await.ok();
    if let Some(signal) = ended.and_then(|status| status_of_command(status).signal()) {
        return Err(LocalError::RunnerKilled { signal });
    }
    let log = work.dirs.log();
    Err(LocalError::RunnerEnded { output: blocking(move || Ok(last_output(&log))).await? })
}

/// Waits until the process answers; false if it exits first.
async fn answers(process: &ProcessId, socket: &Path, limit: Duration) -> Result<bool, LocalError> {
    tokio::select! {
        biased;
        ended = exited(process) => ended.map(|()| false).map_err(LocalError::Unending),
        () = probe::until_ready(socket, limit) => Ok(true),
    }
}

fn last_output(log: &Path) -> String {
    let text = agent_files::read_log(log, LOG_START);
    let text = text.trim();
    let from = text.ceil_char_boundary(text.len().saturating_sub(LAST_OUTPUT));
    match text.get(from..) {
        Some("") | None => "it printed nothing".to_owned(),
        Some(output) => output.replace('\n', "; "),
    }
}
