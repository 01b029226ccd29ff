//! Starts a server in the background for a client that found none.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::BootError;
use super::data_dir::{is_held, server_of};
use crate::cli::ServerFile;

const STARTUP_LIMIT: Duration = Duration::from_secs(20);
/// The log file of a background server.
pub(super) const LOG: &str = "serve.log";
/// A longer log is truncated by the next start.
const LONGEST_LOG: u64 = 4 << 20;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How a background server is started.
#[derive(Debug, Clone)]
pub struct Background {
    pub data_dir: PathBuf,
    pub config: Option<PathBuf>,
    /// The address to listen on.
    pub address: SocketAddr,
}

impl Background {
    /// The server of this data directory; starts it if none runs. It outlives this process.
    pub async fn server_or_start(&self) -> Result<ServerFile, BootError> {
        if let Some(server) = self.server() {
            return Ok(server);
        }
        let mut child = self.start()?;
        let deadline = tokio::time::Instant::now() + STARTUP_LIMIT;
        while tokio::time::Instant::now() < deadline {
            if let Some(server) = self.server() {
                return Ok(server);
            }
            // Another process may have started one first: ours then exits with "held", and the other serves.
            if let Ok(Some(status)) = child.try_wait()
                && !is_held(&self.data_dir)
            {
                return Err(self.failed(status.to_string()));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(self.failed("no response within 20 s".to_owned()))
    }

    pub(super) fn start(&self) -> Result<Child, BootError> {
        let failed = |source| BootError::DataDir { path: self.data_dir.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.data_dir).map_err(failed)?;
        let log = open_log(&self.data_dir.join(LOG)).map_err(failed)?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("up").arg("--data-dir").arg(&self.data_dir);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        if is_taken(self.address) {
            command.args(["--port", "0"]);
        }
        // Its own process group: Ctrl-C in the client's terminal must not end the server.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        command.spawn().map_err(failed)
    }

    fn server(&self) -> Option<ServerFile> {
        server_of(&self.data_dir).filter(|_| is_held(&self.data_dir))
    }

    fn failed(&self, status: String) -> BootError {
        BootError::Background { log: self.data_dir.join(LOG), status }
    }
}

/// Whether another program, or the server of another data directory, has the port. Our clients find the server by
/// its data directory, so any other port works as well.
fn is_taken(address: SocketAddr) -> bool {
    matches!(TcpListener::bind(address), Err(error) if error.kind() == ErrorKind::AddrInUse)
}

/// Two concurrent starts write to one log, so neither may truncate it under the other.
fn open_log(path: &Path) -> std::io::Result<File> {
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if log.metadata()?.len() > LONGEST_LOG {
        log.set_len(0)?;
    }
    Ok(log)
}
