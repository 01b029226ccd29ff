//! Runs a stop build: ends every process of the workspace and keeps its files.

use super::work::Work;
use crate::local::{LocalError, publish};

pub(super) async fn stop(work: &Work) -> Result<(), LocalError> {
    work.step("Ending processes", work.end_processes()).await?;
    publish::publish_stopped(&work.deployment, &work.workspace).await;
    Ok(())
}
