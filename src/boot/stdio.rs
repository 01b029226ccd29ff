//! MCP on standard input and output: bridges to the current server of a data directory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use url::Url;

use super::BootError;
use super::background::Background;
use super::data_dir::{is_held, server_of};
use crate::mcp::bridge::{BridgeOptions, Locator, ServerLocation, bridge};

/// Time between two starts of a server.
const START_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct StdioOptions {
    /// The server, and how to restart it.
    pub background: Background,
    /// The MCP URL of the server when the bridge starts.
    pub mcp_url: Url,
    /// The caller's token; by default that of the manager who owns the data directory.
    pub token: Option<SecretString>,
    /// The client's working directory.
    pub directory: PathBuf,
}

/// Bridges until the client closes its end.
pub async fn stdio(options: StdioOptions) -> Result<(), BootError> {
    let StdioOptions { background, mcp_url, token, directory } = options;
    let token = match token {
        Some(token) => token,
        None => manager_token(&background.data_dir)?,
    };
    let locator = Arc::new(DataDirLocator { background, started_at: Mutex::default() });
    let options = BridgeOptions { url: mcp_url, token, directory, locator };
    bridge(options).await.map_err(BootError::Bridge)
}

/// The server of a data directory may be restarted at another address. A crashed server is started again; a stopped
/// one is not.
#[derive(Debug)]
struct DataDirLocator {
    background: Background,
    /// When we last started a server: starting takes a moment.
    started_at: Mutex<Option<Instant>>,
}

impl Locator for DataDirLocator {
    fn locate(&self) -> ServerLocation {
        let directory = &self.background.data_dir;
        // In this order: a starting server locks the directory before it removes the file of a crashed one.
        let server = server_of(directory);
        match (server, is_held(directory)) {
            (Some(server), true) => ServerLocation::At(server.mcp_url),
            (None, true) => ServerLocation::Changing,
            // Only a clean stop removes the file.
            (Some(_), false) => self.restart(),
            (None, false) => ServerLocation::Nowhere,
        }
    }

    fn remedy(&self) -> String {
        let directory = self.background.data_dir.display();
        format!("Start it with 'fleet-mcp --data-dir {directory} up', then call again.")
    }
}

impl DataDirLocator {
    fn restart(&self) -> ServerLocation {
        let mut started_at = self.started_at.lock().unwrap_or_else(PoisonError::into_inner);
        if started_at.is_some_and(|at| at.elapsed() < START_PAUSE) {
            return ServerLocation::Changing;
        }
        *started_at = Some(Instant::now());
        match self.background.start() {
            // It outlives us and is not awaited.
            Ok(_server) => ServerLocation::Changing,
            Err(error) => {
                tracing::warn!(%error, "the server stopped and could not be restarted");
                ServerLocation::Nowhere
            }
        }
    }
}

fn manager_token(data_dir: &Path) -> Result<SecretString, BootError> {
    let path = data_dir.join("manager.token");
    let text = std::fs::read_to_string(&path).map_err(|source| BootError::DataDir { path, source })?;
    Ok(SecretString::from(text.trim().to_owned()))
}
