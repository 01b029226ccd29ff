//! Settings: flags override the environment, then file, then defaults; unknown keys and contradictions are refused.

pub(crate) mod check;
mod file;
mod source;
mod squads;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use chrono::TimeDelta;
use secrecy::SecretString;
use thiserror::Error;
use url::Url;

use crate::domain::squad::{ExecutionMode, StateMode};
pub use source::{Environment, Flags};

/// All settings of a server, validated.
#[derive(Debug, Clone)]
pub struct Settings {
    pub data_dir: PathBuf,
    pub database: PathBuf,
    pub server: ServerSettings,
    pub coder: Option<CoderSettings>,
    pub fleet: FleetSettings,
    pub log: LogSettings,
    pub squads: SquadSettings,
    /// Tool groups that a client may see; empty: all.
    pub toolsets: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub address: SocketAddr,
    pub public_url: Option<String>,
    /// Accepted host names besides the loopback ones.
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct CoderSettings {
    pub url: Url,
    pub token: SecretString,
    pub token_source: TokenSource,
    pub requests_per_minute: NonZeroU32,
}

/// The source of the Coder token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// CODER_SESSION_TOKEN.
    Environment,
    /// coder.token_file: read again when Coder refuses the token.
    File(PathBuf),
    /// The embedded Coder.
    Embedded,
}

#[derive(Debug, Clone)]
pub struct FleetSettings {
    pub poll_interval: Duration,
    pub parallel_builds: NonZeroUsize,
    pub build_timeout: Duration,
    pub stuck_after: TimeDelta,
    /// The spending limit of an agent; amounts are positive.
    pub max_cost_usd: Option<f64>,
    pub max_tokens: Option<u64>,
    pub role_dirs: Vec<PathBuf>,
    pub project_dirs: Vec<PathBuf>,
    /// Embedded agents may start with less isolation than before.
    pub allows_less_isolation: bool,
}

#[derive(Debug, Clone)]
pub struct SquadSettings {
    pub state_mode: StateMode,
    pub execution_mode: Option<ExecutionMode>,
    pub delay: Duration,
    pub timeout: Duration,
    /// Content of the templates of a custom engine.
    pub run_template: Option<TemplateFile>,
    pub create_chat_template: Option<TemplateFile>,
    /// Additional variables for templates.
    pub values: BTreeMap<String, String>,
    /// The project of members without a given agent.
    pub runs_project: Option<String>,
    /// The longest that a blocking tool may wait; none: until it is done.
    pub longest_wait: Option<Duration>,
}

/// A template file with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFile {
    pub path: PathBuf,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    pub level: String,
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// What is wrong, where, and the remedy.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("{origin}: {key}: {problem}")]
    Value { origin: String, key: String, problem: String },
    #[error("read {path}: {problem}")]
    File { path: PathBuf, problem: String },
    #[error("{0}")]
    Contradiction(String),
    #[error("the user's data directory is not known: set --data-dir or FLEET_DATA_DIR")]
    NoDataDir,
}

impl Settings {
    /// Reads and validates everything. The environment is a parameter, so that tests can pass their own.
    pub fn load(flags: &Flags, environment: &Environment) -> Result<Self, ConfigError> {
        let data_dir = source::data_dir(flags, environment)?;
        let merged = source::merged(flags, environment, &data_dir)?;
        check::checked(merged, data_dir, environment)
    }
}

#[cfg(test)]
mod tests;
