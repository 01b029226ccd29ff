//! MCP on standard input and output: finds or starts the server, then bridges to it.

use std::path::Path;

use secrecy::SecretString;

use super::BootError;
use super::background::server_or_start;
use crate::mcp::bridge::{BridgeOptions, bridge};

/// Bridges as the given token says, or as the manager that owns the data directory.
pub async fn stdio(data_dir: &Path, token: Option<SecretString>) -> Result<(), BootError> {
    let server = server_or_start(data_dir).await?;
    let token = match token {
        Some(token) => token,
        None => manager_token(data_dir)?,
    };
    bridge(BridgeOptions { url: server.mcp_url, token }).await.map_err(BootError::Bridge)
}

fn manager_token(data_dir: &Path) -> Result<SecretString, BootError> {
    let path = data_dir.join("manager.token");
    let text = std::fs::read_to_string(&path).map_err(|source| BootError::DataDir { path, source })?;
    Ok(SecretString::from(text.trim().to_owned()))
}
