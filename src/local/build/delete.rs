//! Runs a delete build: ends the processes, then removes everything made for the workspace.

use super::checkout;
use super::work::Work;
use crate::local::{LocalError, publish};

pub(super) async fn delete(work: &Work) -> Result<(), LocalError> {
    let ending = work.end_processes();
    // A delete that has begun to remove files cannot be canceled, also after a restart of the server.
    if work.dirs.is_there() {
        work.step("Ending processes", ending).await?;
        publish::publish_last(&work.deployment, &work.workspace).await;
    } else {
        ending.await?;
    }
    if work.build.is_orphan { checkout::orphan(work).await } else { checkout::remove(work).await }?;
    work.deployment.publisher.drop(work.workspace.id);
    Ok(())
}
