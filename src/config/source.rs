//! Merges the sources of values: flags, the environment, the file, the defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::{Config, File, FileFormat};
use etcetera::BaseStrategy;
use secrecy::SecretString;

use super::ConfigError;
use super::file::{DEFAULTS, Merged};

/// Values from the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    pub data_dir: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub bind: Option<String>,
    pub port: Option<u16>,
    pub log_level: Option<String>,
    /// The default level, if no other source sets one.
    pub usual_log_level: Option<String>,
}

/// The environment as text; secrets are returned as secrets.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, SecretString>);

/// Variables that set a key of the file; those without our prefix come from the systems we integrate with.
const VARIABLES: &[(&str, &str)] = &[
    ("CODER_URL", "coder.url"),
    ("FLEET_CODER_TOKEN_FILE", "coder.token_file"),
    ("FLEET_PARALLEL_BUILDS", "coder.parallel_builds"),
    ("FLEET_POLL_INTERVAL_MS", "coder.poll_interval_ms"),
    ("FLEET_ALLOW_LESS_ISOLATION", "agents.allow_less_isolation"),
    ("FLEET_BIND", "server.bind"),
    ("MCP_SERVER_PORT", "server.port"),
    ("FLEET_PUBLIC_URL", "server.public_url"),
    ("FLEET_BEHIND_TLS", "server.behind_tls"),
    ("MCP_DATABASE_PATH", "store.path"),
    ("MCP_LOG_LEVEL", "log.level"),
    ("FLEET_LOG_FORMAT", "log.format"),
    ("AGENTS_DIRECTORY_PATH", "fleet.roles_dir"),
    ("FLEET_PROJECTS_DIR", "fleet.projects_dir"),
    ("MCP_TOOL_TIMEOUT", "mcp.tool_timeout_ms"),
    ("STATE_MODE", "squads.state_mode"),
    ("EXECUTION_MODE", "squads.execution_mode"),
    ("SEQUENTIAL_DELAY_MS", "squads.sequential_delay_ms"),
    ("PROCESS_TIMEOUT_MS", "squads.process_timeout_ms"),
    ("RUN_TEMPLATE_PATH", "squads.run_template"),
    ("CREATE_CHAT_TEMPLATE_PATH", "squads.create_chat_template"),
];

impl Environment {
    pub fn of_process() -> Self {
        std::env::vars().collect()
    }

    /// A variable that is set and not blank.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        use secrecy::ExposeSecret;
        self.0
            .get(name)
            .map(|value| value.expose_secret().to_owned())
            .filter(|value| !value.trim().is_empty())
    }

    pub(super) fn secret(&self, name: &str) -> Option<SecretString> {
        self.get(name).map(|value| SecretString::from(value.trim().to_owned()))
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name, SecretString::from(value))).collect())
    }
}

pub(super) fn data_dir(flags: &Flags, environment: &Environment) -> Result<PathBuf, ConfigError> {
    let given = flags.data_dir.clone().or_else(|| environment.get("FLEET_DATA_DIR").map(PathBuf::from));
    let dir = match given {
        Some(dir) => dir,
        None => {
            etcetera::choose_base_strategy().map_err(|_| ConfigError::NoDataDir)?.data_dir().join("fleet-mcp")
        }
    };
    std::path::absolute(&dir).map_err(|error| ConfigError::File { path: dir, problem: error.to_string() })
}

/// All layers merged; an invalid value is reported with its source and key.
pub(super) fn merged(
    flags: &Flags,
    environment: &Environment,
    data_dir: &Path,
) -> Result<Merged, ConfigError> {
    let path = config_file(flags, environment, data_dir)?;
    let mut builder = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
    if let Some(level) = &flags.usual_log_level {
        builder = builder.add_source(File::from_str(&format!("log.level = {level:?}"), FileFormat::Toml));
    }
    if let Some(path) = &path {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::File { path: path.clone(), problem: error.to_string() })?;
        check_file(path, &text)?;
        builder = builder.add_source(File::from_str(&text, FileFormat::Toml));
    }
    for (variable, key) in VARIABLES {
        builder = override_with(builder, key, environment.get(variable))?;
    }
    builder = override_with(builder, "server.bind", flags.bind.clone())?;
    builder = override_with(builder, "server.port", flags.port.map(|port| port.to_string()))?;
    builder = override_with(builder, "log.level", flags.log_level.clone())?;
    let merged = builder.build().map_err(|error| ConfigError::Contradiction(error.to_string()))?;
    serde_path_to_error::deserialize(merged).map_err(|error| {
        let key = error.path().to_string();
        ConfigError::Value {
            origin: origin_of(&key, environment, flags),
            key,
            problem: error.into_inner().to_string(),
        }
    })
}

type Builder = config::ConfigBuilder<config::builder::DefaultState>;

fn override_with(builder: Builder, key: &str, value: Option<String>) -> Result<Builder, ConfigError> {
    builder.set_override_option(key, value).map_err(|error| ConfigError::Contradiction(error.to_string()))
}

/// A file given explicitly must exist; the one in the data directory may be missing.
fn config_file(
    flags: &Flags,
    environment: &Environment,
    data_dir: &Path,
) -> Result<Option<PathBuf>, ConfigError> {
    let named = flags.config.clone().or_else(|| environment.get("FLEET_CONFIG").map(PathBuf::from));
    if let Some(path) = named {
        return Ok(Some(path));
    }
    let usual = data_dir.join("fleet.toml");
    Ok(usual.is_file().then_some(usual))
}

/// Checks the file over the defaults alone, so that its errors name it and not another layer.
fn check_file(path: &Path, text: &str) -> Result<(), ConfigError> {
    let origin = path.display().to_string();
    let problem = |problem: String| ConfigError::File { path: path.to_owned(), problem };
    toml::from_str::<toml::Table>(text).map_err(|error| problem(error.to_string().trim_end().to_owned()))?;
    let layered = Config::builder()
        .add_source(File::from_str(DEFAULTS, FileFormat::Toml))
        .add_source(File::from_str(text, FileFormat::Toml))
        .build()
        .map_err(|error| problem(error.to_string()))?;
    let checked: Result<Merged, _> = serde_path_to_error::deserialize(layered);
    checked.map(drop).map_err(|error| {
        let key = error.path().to_string();
        ConfigError::Value { origin, key, problem: error.into_inner().to_string() }
    })
}

fn origin_of(key: &str, environment: &Environment, flags: &Flags) -> String {
    let is_flag =
        (key == "server.port" && flags.port.is_some()) || (key == "server.bind" && flags.bind.is_some());
    let variable = VARIABLES.iter().find(|(variable, of)| *of == key && environment.get(variable).is_some());
    match variable {
        _ if is_flag => "the command line".to_owned(),
        Some((variable, _)) => format!("environment variable {variable}"),
        None => "settings".to_owned(),
    }
}
