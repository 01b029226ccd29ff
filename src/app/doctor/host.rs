//! Checks that need the machine of the workspaces; a deployment provides none.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::hosting::HostFindings;

/// The inspection takes milliseconds; the limit only guards against a hung machine.
const LIMIT: Duration = Duration::from_secs(5);

/// Inspects the directories and processes of workspaces. It may block.
pub trait HostInspection: fmt::Debug + Send + Sync {
    fn inspect(&self) -> Result<HostFindings, String>;
}

/// The inputs of `doctor` beside the store and Coder.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// None if workspaces run on other machines.
    pub host: Option<Arc<dyn HostInspection>>,
    /// Paths at which this server's log may be.
    pub logs: Vec<PathBuf>,
}

impl Inspection {
    pub(super) async fn run(&self) -> Result<HostFindings, String> {
        let Some(host) = self.host.clone() else { return Ok(HostFindings::default()) };
        let inspected = tokio::task::spawn_blocking(move || host.inspect());
        match tokio::time::timeout(LIMIT, inspected).await {
            Ok(Ok(findings)) => findings,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the scan of directories and processes timed out".to_owned()),
        }
    }
}
