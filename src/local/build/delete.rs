//! A delete build: processes end, then everything that was made for the workspace goes.

use super::checkout;
use super::work::Work;
use crate::local::{LocalError, socket};

pub(super) async fn delete(work: &Work) -> Result<(), LocalError> {
    work.step("Ending processes", work.end_processes()).await?;
    // From here on there is no way back, so a cancel comes too late.
    socket::forget(work.workspace.id);
    if work.build.is_orphan { checkout::leave_behind(work).await } else { checkout::remove(work).await }
}
