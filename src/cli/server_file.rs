//! `server.json`: how a command finds the server of its data directory.

use std::path::Path;

use serde::{Deserialize, Serialize};
use url::Url;

use super::data_files::DataFiles;
use super::error::CliError;

pub(super) const FILE: &str = "server.json";

/// There while the server serves, gone after a clean stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFile {
    pub url: Url,
    pub mcp_url: Url,
    pub pid: u32,
    pub version: String,
}

impl ServerFile {
    /// None when there is no such file.
    pub(super) fn read(data_directory: &Path) -> Result<Option<Self>, CliError> {
        Self::of(&DataFiles::open(data_directory)?)
    }

    pub(super) fn of(files: &DataFiles) -> Result<Option<Self>, CliError> {
        let text = files.read(FILE)?;
        text.map(|text| serde_json::from_str(&text).map_err(CliError::ServerFile)).transpose()
    }

    /// A killed server leaves its file behind.
    pub(super) fn is_alive(&self) -> bool {
        is_alive(self.pid)
    }
}

/// Does this process run?
pub(super) fn is_alive(number: u32) -> bool {
    let pid = i32::try_from(number).ok().and_then(rustix::process::Pid::from_raw);
    match pid.map(rustix::process::test_kill_process) {
        Some(Ok(())) => !has_ended(number),
        // It runs as somebody else.
        Some(Err(error)) => error == rustix::io::Errno::PERM,
        None => false,
    }
}

/// A process that has ended keeps its number until its parent has noticed, which some parents never do.
fn has_ended(number: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}
