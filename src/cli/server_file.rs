//! `server.json`: how a command finds the server of its data directory.

use std::path::Path;

use serde::{Deserialize, Serialize};
use url::Url;

use super::data_files::DataFiles;
use super::error::CliError;
use crate::process::is_running;

pub(super) const FILE: &str = "server.json";

/// Exists while the server serves; removed by a clean stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    pub url: Url,
    pub mcp_url: Url,
    pub pid: u32,
    pub version: String,
}

impl ServerFile {
    /// None if the file does not exist.
    pub(super) fn read(data_directory: &Path) -> Result<Option<Self>, CliError> {
        Self::of(&DataFiles::open(data_directory)?)
    }

    pub(super) fn of(files: &DataFiles) -> Result<Option<Self>, CliError> {
        let text = files.read(FILE)?;
        text.map(|text| serde_json::from_str(&text).map_err(CliError::ServerFile)).transpose()
    }

    /// A killed server leaves its file.
    pub(super) fn is_alive(&self) -> bool {
        is_running(self.pid)
    }
}
