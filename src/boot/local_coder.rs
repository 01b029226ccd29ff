//! Starts the embedded Coder from the settings: for a fleet, or alone as a Coder to test against.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use super::data_dir::DataDir;
use super::{BootError, store_location};
use crate::app::catalog::{Catalog, CatalogDirs};
use crate::app::doctor::HostInspection;
use crate::config::{CoderSettings, Settings, SquadSettings, TemplateFile, TokenSource};
use crate::domain::hosting::{HostFindings, Isolation};
use crate::engine::EngineWord;
use crate::hooks;
use crate::local::{
    AgentFile, Inspector, LocalCoder, LocalLimits, LocalOptions, RunnerCommand, TemplateFiles,
    TemplateSources,
};
use crate::process::StopSignals;
use crate::telemetry::Secrets;

/// Well below the embedded Coder's limit, which equals a real one's.
const REQUESTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(400).unwrap();

/// Options of an embedded Coder beyond the settings.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    pub port: u16,
    /// The engine of its agents.
    pub engine: EngineWord,
    /// The engine as requested, which another machine may resolve differently.
    pub asked: EngineWord,
    /// The directory of the project `here`, for callers without one of their own.
    pub here: Option<PathBuf>,
    /// The embedded Coder's token must not be logged either.
    pub secrets: Secrets,
}

/// Serves only a Coder until SIGTERM, Ctrl-C or a hangup.
pub async fn local_coder(settings: &Settings, options: &EmbeddedOptions) -> Result<(), BootError> {
    let dir = DataDir::hold(&settings.data_dir)?;
    let signals = StopSignals::listen().map_err(BootError::Signals)?;
    let coder = start(settings, options).await?;
    tracing::info!(
        coder.url = %coder.url(),
        coder.token_file = %dir.file("coder.token").display(),
        "serving the embedded Coder; set CODER_URL and CODER_SESSION_TOKEN to these values"
    );
    signals.received().await;
    coder.stop().await;
    Ok(())
}

pub(super) async fn start(settings: &Settings, options: &EmbeddedOptions) -> Result<LocalCoder, BootError> {
    hide_memory();
    let program = std::env::current_exe().map_err(BootError::Serve)?;
    let coder = LocalCoder::start(LocalOptions {
        data_dir: settings.data_dir.clone(),
        port: options.port,
        slots: settings.fleet.parallel_builds,
        files: Arc::new(CatalogTemplates::open(settings)),
        here: options.here.clone(),
        engine: options.engine.word().to_owned(),
        agent_files: templates(&settings.squads),
        runner: RunnerCommand { program, arguments: vec!["agent".to_owned()] },
        // This name keeps denoting the same file, even if an agent of the same user replaces the original.
        encloser: "/proc/self/exe".into(),
        hidden: store_location::hidden_directory(settings)?.into_iter().collect(),
        allows_less_isolation: settings.fleet.allows_less_isolation,
        build_deadline: settings.fleet.build_timeout,
        limits: LocalLimits::NORMAL.divided_by(hooks::limits_divisor()),
    });
    let coder = coder.await.map_err(BootError::LocalCoder)?;
    options.secrets.add(coder.token());
    log_isolation(coder.isolation());
    Ok(coder)
}

/// The content of a custom engine's templates: their files may be hidden from agents, and their paths are relative
/// to another directory.
fn templates(settings: &SquadSettings) -> Vec<AgentFile> {
    let file = |name, variable, template: &Option<TemplateFile>| {
        template.as_ref().map(|template| AgentFile { name, variable, text: template.text.clone() })
    };
    let run = file("run.template", "RUN_TEMPLATE_PATH", &settings.run_template);
    let create_chat =
        file("create-chat.template", "CREATE_CHAT_TEMPLATE_PATH", &settings.create_chat_template);
    run.into_iter().chain(create_chat).collect()
}

/// The operator must know what agents can reach.
fn log_isolation(isolation: &Isolation) {
    match isolation {
        Isolation::Enforced => {
            tracing::info!("agents can reach your files, but not the fleet's data or each other's work");
        }
        Isolation::SharedProcesses { reason } => tracing::warn!(
            reason,
            "agents cannot reach the fleet's data, but they can signal this server and each other, and a \
             detached process can survive a stop; allow PID namespaces with a /proc of their own for this \
             program"
        ),
        Isolation::Absent { reason } => tracing::warn!(
            reason,
            "agents are not isolated and can act as you: they can read your tokens, each other's work \
             and change your repositories; allow user namespaces for this program, or run agents on a Coder deployment"
        ),
        Isolation::Withheld { reason } => tracing::error!(
            reason,
            "agents were isolated before, but the server cannot isolate them now, so it starts no agent; \
             allow namespaces for this program again, or set FLEET_ALLOW_LESS_ISOLATION=true and restart the \
             server to start agents with less isolation"
        ),
    }
}

/// The machine of the embedded Coder, as inspected by `doctor`.
#[derive(Debug)]
pub(super) struct HostInspector(pub(super) Inspector);

impl HostInspection for HostInspector {
    fn inspect(&self) -> Result<HostFindings, String> {
        self.0.inspect().map_err(|error| error.to_string())
    }
}

/// The fleet's catalog as a source of templates.
#[derive(Debug)]
struct CatalogTemplates(Catalog);

impl CatalogTemplates {
    fn open(settings: &Settings) -> Self {
        let (roles, projects) = (settings.fleet.role_dirs.clone(), settings.fleet.project_dirs.clone());
        Self(Catalog::open(CatalogDirs { roles, projects }))
    }
}

impl TemplateFiles for CatalogTemplates {
    fn read(&self) -> TemplateSources {
        self.0.reload();
        let files = self.0.files();
        TemplateSources {
            projects: files.projects.values().cloned().collect(),
            roles: files.roles.values().cloned().collect(),
        }
    }
}

/// Agents run as the same user: otherwise any of them could read our tokens from our memory.
fn hide_memory() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "this process cannot be hidden from the agents it starts");
    }
}

/// The settings with which the fleet connects to it, as to any other Coder.
pub(super) fn settings_of(coder: &LocalCoder) -> CoderSettings {
    CoderSettings {
        url: coder.url().clone(),
        token: coder.token(),
        token_source: TokenSource::Embedded,
        requests_per_minute: REQUESTS_PER_MINUTE,
    }
}
