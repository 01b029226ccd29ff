//! Options of every command: the data directory, the server to use, the output format.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use etcetera::BaseStrategy;
use url::Url;

use super::error::CliError;

/// Our directory below the user's data directory.
const DIRECTORY: &str = "fleet-mcp";

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Directory for all data of the server [default: fleet-mcp in your data directory]
    #[arg(long, global = true, value_name = "DIR", env = "FLEET_DATA_DIR", hide_env_values = true)]
    pub data_dir: Option<PathBuf>,
    /// Settings file [default: fleet.toml in the data directory]
    #[arg(long, global = true, value_name = "FILE", env = "FLEET_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Use the server at this address with the token in FLEET_TOKEN, instead of the data directory's server
    #[arg(long, global = true, value_name = "URL", env = "FLEET_URL", hide_env_values = true, value_parser = web_address)]
    pub url: Option<Url>,
    /// Print the server's answer as JSON, and errors as JSON too
    #[arg(long, global = true)]
    pub json: bool,
    /// Log level of the server
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl Globals {
    /// The given data directory, or the user's own; none without a home directory.
    pub fn data_directory(&self) -> Option<PathBuf> {
        match &self.data_dir {
            Some(directory) => Some(directory.clone()),
            None => Self::usual_data_directory(),
        }
    }

    /// The options with which another command selects the same server; empty for the defaults.
    pub(super) fn own_arguments(&self) -> Result<Vec<String>, CliError> {
        let usual = Self::usual_data_directory();
        let directory = absolute(&self.require_data_directory()?)?;
        let config = self.config.as_deref().map(absolute).transpose()?;
        let directory = (Some(&directory) != usual.as_ref()).then_some(("--data-dir", directory));
        let named = directory.into_iter().chain(config.map(|config| ("--config", config)));
        Ok(named.flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]).collect())
    }

    fn usual_data_directory() -> Option<PathBuf> {
        etcetera::choose_base_strategy().ok().map(|base| base.data_dir().join(DIRECTORY))
    }

    pub(super) fn require_data_directory(&self) -> Result<PathBuf, CliError> {
        self.data_directory().ok_or(CliError::NoHome)
    }
}

/// Other programs start us in another directory.
fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path).map_err(|source| CliError::File { path: path.to_owned(), source })
}

fn web_address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err("not an http or https address".into())
    }
}
