//! Starts a server in the background for a client that found none.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::BootError;
use super::data_dir::{is_held, server_of};
use crate::cli::ServerFile;

const STARTUP_LIMIT: Duration = Duration::from_secs(20);
const LOG: &str = "serve.log";
/// A log longer than this is begun anew by the next start.
const LONGEST_LOG: u64 = 4 << 20;
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The server of this data directory, started if none runs. It outlives us.
pub async fn server_or_start(data_dir: &Path, config: Option<&Path>) -> Result<ServerFile, BootError> {
    if let Some(server) = server_of(data_dir).filter(|_| is_held(data_dir)) {
        return Ok(server);
    }
    let mut child = start(data_dir, config)?;
    let deadline = tokio::time::Instant::now() + STARTUP_LIMIT;
    while tokio::time::Instant::now() < deadline {
        if let Some(server) = server_of(data_dir).filter(|_| is_held(data_dir)) {
            return Ok(server);
        }
        // Another one may have been quicker: then ours ends with "held", and the other serves.
        if let Ok(Some(status)) = child.try_wait()
            && !is_held(data_dir)
        {
            return Err(BootError::Background { log: data_dir.join(LOG), status: status.to_string() });
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Err(BootError::Background { log: data_dir.join(LOG), status: "no answer in 20 s".into() })
}

fn start(data_dir: &Path, config: Option<&Path>) -> Result<std::process::Child, BootError> {
    let failed = |source| BootError::DataDir { path: data_dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(failed)?;
    let log = open_log(&data_dir.join(LOG)).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("up").arg("--data-dir").arg(data_dir);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    // A group of its own: Ctrl-C in the client's terminal is not meant for the server.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
    command.spawn().map_err(failed)
}

/// Two that start at once write to one log, so neither may empty it under the other's hands.
fn open_log(path: &Path) -> std::io::Result<File> {
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if log.metadata()?.len() > LONGEST_LOG {
        log.set_len(0)?;
    }
    Ok(log)
}
