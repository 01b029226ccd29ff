//! Ends every process of a run, wherever it went.
//!
//! A process group or session is not enough: engines start children in sessions of their own. The marker is inherited by
//! all of them; a process that clears its environment is known by its parent.

use std::time::Duration;

use crate::domain::id::RunId;
use crate::process::{EndLimits, Marker, ProcessId, end_from_top};

/// The variable that every process of a run carries.
pub(super) const MARKER: &str = "FLEET_RUN";

/// What cannot be killed in this time is stuck in the kernel. Two looks fit in, also when each of them waits for a process
/// that lets no other process read it. A stop of the workspace waits for two of these.
const KILL_LIMIT: Duration = Duration::from_millis(2500);

/// Ends every process of the run, also those that appear meanwhile, and returns when none is left.
///
/// First they are asked, because a process that is killed cleans nothing up: git would leave its locks behind, and the
/// next run could not commit. The engine goes before its commands, whose end it would take for an answer and ask its
/// model what to do next.
pub(crate) async fn end(run: RunId, engine: Option<ProcessId>, grace: Duration) {
    let marker = Marker { key: MARKER.to_owned(), value: run.to_string() };
    let limits = EndLimits { term: grace, kill: KILL_LIMIT };
    if let Err(error) = end_from_top(marker, engine, limits).await {
        tracing::warn!(run.id = %run, %error, "some processes of the run may be left");
    }
}
