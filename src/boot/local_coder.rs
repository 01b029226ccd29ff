//! The embedded Coder from the settings: beside a fleet, or alone for anyone who wants a Coder to test against.

use std::num::NonZeroU32;
use std::path::PathBuf;

use super::data_dir::DataDir;
use super::{BootError, signals};
use crate::app::catalog::{Catalog, CatalogDirs};
use crate::config::{CoderSettings, Settings};
use crate::local::{LocalCoder, LocalOptions, RunnerCommand};

/// Well below the limit that the embedded Coder keeps like a real one.
const REQUESTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(400).unwrap();

/// What an embedded Coder takes beyond the settings.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    pub port: u16,
    pub engine: String,
    /// The directory of the project `here`.
    pub here: Option<PathBuf>,
}

/// Serves a Coder and nothing else until SIGTERM or Ctrl-C.
pub async fn local_coder(settings: &Settings, options: &EmbeddedOptions) -> Result<(), BootError> {
    let dir = DataDir::hold(&settings.data_dir)?;
    let coder = start(settings, options).await?;
    tracing::info!(
        coder.url = %coder.url(),
        coder.token_file = %dir.file("coder.token").display(),
        "serving a Coder; set CODER_URL and CODER_SESSION_TOKEN to these"
    );
    signals::asked_to_stop().await;
    coder.stop().await;
    Ok(())
}

pub(super) async fn start(settings: &Settings, options: &EmbeddedOptions) -> Result<LocalCoder, BootError> {
    let dirs = CatalogDirs {
        roles: settings.fleet.role_dirs.clone(),
        projects: settings.fleet.project_dirs.clone(),
    };
    hide_memory();
    let files = Catalog::open(dirs).files();
    let program = std::env::current_exe().map_err(BootError::Serve)?;
    let coder = LocalCoder::start(LocalOptions {
        data_dir: settings.data_dir.clone(),
        port: options.port,
        slots: settings.fleet.parallel_builds,
        projects: files.projects.values().cloned().collect(),
        roles: files.roles.values().cloned().collect(),
        here: options.here.clone(),
        engine: options.engine.clone(),
        runner: RunnerCommand { program, arguments: vec!["agent".to_owned()] },
        build_deadline: settings.fleet.build_timeout,
    });
    coder.await.map_err(BootError::LocalCoder)
}

/// Agents run as the same user: without this any of them could read our tokens out of our memory.
fn hide_memory() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "this process cannot be hidden from the agents it starts");
    }
}

/// How the fleet reaches it: like any other Coder.
pub(super) fn settings_of(coder: &LocalCoder) -> CoderSettings {
    CoderSettings {
        url: coder.url().clone(),
        token: coder.token(),
        token_file: None,
        requests_per_minute: REQUESTS_PER_MINUTE,
    }
}
