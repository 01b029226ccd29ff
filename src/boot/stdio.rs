//! MCP on standard input and output: bridges to the server of a data directory, wherever that is just now.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;
use url::Url;

use super::BootError;
use super::data_dir::{is_held, server_of};
use crate::mcp::bridge::{BridgeOptions, Locator, Whereabouts, bridge};

#[derive(Debug)]
pub struct StdioOptions {
    pub data_dir: PathBuf,
    /// Where the server speaks MCP as the bridge starts.
    pub mcp_url: Url,
    /// Who calls; none: the manager who owns the data directory.
    pub token: Option<SecretString>,
    /// Where the client works.
    pub directory: PathBuf,
}

/// Bridges until the client closes its end.
pub async fn stdio(options: StdioOptions) -> Result<(), BootError> {
    let StdioOptions { data_dir, mcp_url, token, directory } = options;
    let token = match token {
        Some(token) => token,
        None => manager_token(&data_dir)?,
    };
    let options = BridgeOptions { url: mcp_url, token, directory, locator: Arc::new(ByDirectory(data_dir)) };
    bridge(options).await.map_err(BootError::Bridge)
}

/// The server of a data directory may be restarted, and then serve elsewhere.
#[derive(Debug)]
struct ByDirectory(PathBuf);

impl Locator for ByDirectory {
    fn whereabouts(&self) -> Whereabouts {
        match (is_held(&self.0), server_of(&self.0)) {
            (true, Some(server)) => Whereabouts::At(server.mcp_url),
            (true, None) => Whereabouts::OnItsWay,
            (false, _) => Whereabouts::Nowhere,
        }
    }
}

fn manager_token(data_dir: &Path) -> Result<SecretString, BootError> {
    let path = data_dir.join("manager.token");
    let text = std::fs::read_to_string(&path).map_err(|source| BootError::DataDir { path, source })?;
    Ok(SecretString::from(text.trim().to_owned()))
}
